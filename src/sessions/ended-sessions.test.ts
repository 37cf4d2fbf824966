import { mkdtempSync, rmSync, statSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";

import { afterAll, describe, expect, it } from "vitest";

import { openEndedSessions } from "./ended-sessions.ts";

describe("ended sessions in a folder", () => {
  const folder = mkdtempSync(join(tmpdir(), "headgate-ended-"));
  afterAll(() => {
    rmSync(folder, { recursive: true, force: true });
  });

  it("are known to every process that uses the folder, at once and later", () => {
    const [one, other] = [openEndedSessions(folder, () => 5), openEndedSessions(folder, () => 5)];
    one.add({ id: "a", owner: "ann", openedAt: 1, expiresAt: 100 });
    expect(["a", "b"].map((id) => other.has({ id, owner: "ann", openedAt: 1 }))).toEqual([true, false]);
    one.close();
    other.close();
    const later = openEndedSessions(folder, () => 5);
    expect(later.has({ id: "a", owner: "ann", openedAt: 1 })).toBe(true);
    later.close();
  });

  it("count as ended with all others opened before, when somebody deletes their file", () => {
    const lost: string[] = [];
    const [own, others] = [mkdtempSync(join(folder, "own-")), { owner: "ann", expiresAt: 100 }];
    const list = openEndedSessions(own, () => 5, { onLost: (message) => lost.push(message) });
    list.add({ id: "a", openedAt: 1, ...others });
    for (const name of ["", "-wal", "-shm"]) rmSync(join(own, `sessions.sqlite${name}`));
    const opened = [1, 5, 6].map((openedAt) => list.has({ id: `s${openedAt}`, owner: "ann", openedAt }));
    expect(opened).toEqual([true, true, false]);
    expect(lost).toEqual([expect.stringContaining("was deleted or moved")]);
    list.close();
  });

  it("are dropped from the list when there are too many, which is told; then those as old count as ended, too", () => {
    const dropped: number[] = [];
    const list = openEndedSessions(undefined, () => 5, { max: 10, onDropped: (until) => dropped.push(until) });
    for (let openedAt = 1; openedAt <= 11; openedAt++)
      list.add({ id: `s${openedAt}`, owner: "ann", openedAt, expiresAt: 100 });
    expect(dropped).toEqual([6]);
    expect([list.isListed("s1"), list.isListed("s11"), list.isListed("open")]).toEqual([false, true, false]);
    expect([1, 6, 7].map((openedAt) => list.has({ id: "open", owner: "ann", openedAt }))).toEqual([true, true, false]);
    list.close();
  });

  it("are private", () => {
    expect(statSync(join(folder, "sessions.sqlite")).mode & 0o077).toBe(0);
  });
});

describe("more ended sessions than are remembered", () => {
  it.each(["ann", "console"])("make those of their owner count as ended, and nobody else's: %s", (owner) => {
    const list = openEndedSessions(undefined, () => 0, { max: 100 });
    list.add({ id: "bob's", owner: "bob", openedAt: 5, expiresAt: 1e6 });
    for (let turn = 10; turn < 1000; turn++) {
      const id = `${owner} ${turn}`;
      list.add({ id, owner, openedAt: turn, expiresAt: 1e6 });
      expect(list.has({ id, owner, openedAt: turn })).toBe(true);
    }
    // Forgotten ones must not come back, and so nothing as old as they are.
    for (let turn = 10; turn < 1000; turn++)
      expect(list.has({ id: `${owner} ${turn}`, owner, openedAt: turn })).toBe(true);
    expect(list.has({ id: "another", owner, openedAt: 10 })).toBe(true);
    expect(list.has({ id: "new", owner, openedAt: 2000 })).toBe(false);
    expect(list.has({ id: "bob's", owner: "bob", openedAt: 5 })).toBe(true);
    expect(list.has({ id: "bob's other", owner: "bob", openedAt: 5 })).toBe(false);
    list.close();
  });

  it("count all as ended where everybody has few", () => {
    const list = openEndedSessions(undefined, () => 0, { max: 1000 });
    for (let turn = 0; turn < 3000; turn++)
      list.add({ id: `session ${turn}`, owner: `caller ${turn}`, openedAt: turn, expiresAt: 1e6 });
    for (let turn = 0; turn < 3000; turn++)
      expect(list.has({ id: `session ${turn}`, owner: `caller ${turn}`, openedAt: turn })).toBe(true);
    expect(list.has({ id: "open", owner: "bob", openedAt: 2999.5 })).toBe(false);
    list.close();
  });
});
