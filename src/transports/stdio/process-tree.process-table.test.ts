import { describe, expect, it } from "vitest";

import { findTreeMembers, listProcesses, parseProcess, type ProcessEntry, readProcess } from "./process-tree.ts";

const tree = { leader: 100, marker: "7.a", startedAt: 1000 };

function entry(pid: number, facts: Partial<ProcessEntry> = {}): ProcessEntry {
  return { pid, parent: 1, group: pid, session: pid, startedAt: 2000, isZombie: false, ...facts };
}

const leader = entry(100, { parent: 7, startedAt: 1000 });

function pidsOf(table: readonly ProcessEntry[], marked: readonly number[] = []): number[] {
  return findTreeMembers(tree, table, (pid, marker) => marker === "7.a" && marked.includes(pid))
    .map(({ pid }) => pid)
    .toSorted((a, b) => a - b);
}

describe("a line of the process table", () => {
  it("is read whatever the name of the program is", () => {
    const rest = "S 7 100 99 0 -1 4194560 1 0 0 0 0 0 0 0 20 0 1 0 123456 2";
    const expected = {
      pid: 101,
      parent: 7,
      group: 100,
      session: 99,
      startedAt: 123456,
      isZombie: false,
    };
    for (const name of ["node", "a b", "x) Z 1 1 1 (y", ")"]) {
      expect(parseProcess(`101 (${name}) ${rest}\n`)).toEqual(expected);
    }
  });

  it.each(["Z", "X"])("tells that a process in state %s has ended", (state) => {
    const text = `101 (sh) ${state} 7 100 99 0 -1 4194560 1 0 0 0 0 0 0 0 20 0 1 0 5 2`;
    expect(parseProcess(text)?.isZombie).toBe(true);
  });

  it.each(["", "101", "101 (sh", "101 (sh) S 1 2", "x (sh) S 7 1 1 0 -1 1 1 0 0 0 0 0 0 0 20 0 1 0 5 2"])(
    "is refused when it is %j",
    (text) => {
      expect(parseProcess(text)).toBeUndefined();
    },
  );
});

describe("the members of a tree", () => {
  it("are the leader's group, its session and their descendants", () => {
    const table = [
      leader,
      entry(101, { parent: 100, group: 100, session: 100 }),
      entry(102, { parent: 1, group: 100, session: 100 }),
      entry(103, { parent: 101, group: 103, session: 100 }),
      entry(105, { parent: 104, group: 105, session: 105 }),
      entry(104, { parent: 103, group: 104, session: 104 }),
      entry(200),
    ];
    expect(pidsOf(table)).toEqual([100, 101, 102, 103, 104, 105]);
  });

  it("are found by their marker when nothing else ties them, with their own descendants", () => {
    const table = [leader, entry(110), entry(112, { parent: 110 }), entry(200)];
    expect(pidsOf(table, [110])).toEqual([100, 110, 112]);
  });

  it("are found when the leader has gone", () => {
    expect(pidsOf([entry(101, { group: 100, session: 100 })])).toEqual([101]);
  });

  it("leave out what has ended but not what it started", () => {
    const table = [
      { ...leader, isZombie: true },
      entry(101, { parent: 100, isZombie: true }),
      entry(102, { parent: 101 }),
    ];
    expect(pidsOf(table)).toEqual([102]);
  });

  it("leave out what is older than the tree, even with its marker", () => {
    expect(pidsOf([leader, entry(50, { startedAt: 999 })], [50])).toEqual([100]);
  });

  it("leave out a stranger who got the leader's number, and his group", () => {
    const table = [entry(100, { startedAt: 5000 }), entry(101, { group: 100, session: 100 }), entry(110)];
    expect(pidsOf(table, [110])).toEqual([110]);
  });
});

describe.runIf(process.platform === "linux")("the process table of this machine", () => {
  it("has this process", async () => {
    const own = readProcess(process.pid);
    expect(own?.parent).toBe(process.ppid);
    expect((await listProcesses())?.find(({ pid }) => pid === process.pid)).toEqual(own);
  });
});
