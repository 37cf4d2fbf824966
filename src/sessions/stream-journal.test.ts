import { appendFileSync, mkdtempSync, readdirSync, rmSync, statSync, symlinkSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";

import { describe, expect, it, onTestFinished } from "vitest";

import { idFrom } from "../protocol/message.ts";
import { openStreamJournal } from "./stream-journal.ts";

function folder(): string {
  const path = mkdtempSync(join(tmpdir(), "headgate-journal-"));
  onTestFinished(() => rmSync(path, { recursive: true }));
  return path;
}

const open = (path: string, node: string, wall = Date.now) => openStreamJournal(path, node, wall);

describe("the journal of streams", () => {
  it("tells the next process which calls of a session were not answered", () => {
    const path = folder();
    const before = open(path, "0000000a");
    before.opened("s1", [idFrom(1)])();
    before.opened("s1", [idFrom(2), idFrom("two")]);
    before.opened("s2", [idFrom(3)]);
    // It is killed here; the next process may have begun to write a line.
    appendFileSync(join(path, "streams-0000000a.log"), '[9,"s1",["n:');
    const after = open(path, "0000000b");
    expect(after.lostCalls("s1", "0000000a")).toEqual([idFrom(2), idFrom("two")]);
    expect(after.lostCalls("s2", "0000000a")).toEqual([idFrom(3)]);
    expect(after.lostCalls("s3", "0000000a")).toEqual([]);
  });

  it("begins a new file with every open stream when the disk was full", () => {
    const path = folder();
    // Writing there fails as on a full disk; a new file takes the place of the link.
    symlinkSync("/dev/full", join(path, "streams-0000000a.log"));
    const before = open(path, "0000000a");
    expect(() => before.opened("s1", [idFrom(1)])).toThrow("ENOSPC");
    before.opened("s1", [idFrom(2)]);
    before.opened("s1", [idFrom(3)])();
    before.opened("s1", [idFrom(4)]);
    const lost = open(path, "0000000b").lostCalls("s1", "0000000a");
    expect(lost).toEqual([1, 2, 4].map((id) => idFrom(id)));
  });

  it.each(["0000000b", "0000000c", "../../etc/passwd", ""])("knows nothing of other nodes: %j", (node) => {
    const journal = open(folder(), "0000000b");
    journal.opened("s", [idFrom(1)]);
    expect(journal.lostCalls("s", node)).toEqual([]);
  });

  it("is private, bounded, and gone when its process ends in good order", () => {
    const path = folder();
    const journal = open(path, "0000000a");
    journal.opened("kept", [idFrom("x")]);
    for (let call = 0; call < 30_000; call++) journal.opened("session-of-somebody", [idFrom(call)])();
    const file = join(path, "streams-0000000a.log");
    expect(statSync(file).size).toBeLessThan(1_100_000);
    expect(statSync(file).mode & 0o077).toBe(0);
    expect(open(path, "0000000b").lostCalls("kept", "0000000a")).toEqual([idFrom("x")]);
    journal.close();
    expect(readdirSync(path)).toEqual(["streams-0000000b.log"]);
  });

  it("deletes journals that nobody can need any more", () => {
    const path = folder();
    open(path, "0000000a");
    open(path, "0000000b", () => Date.now() + 31 * 86_400_000);
    expect(readdirSync(path)).toEqual(["streams-0000000b.log"]);
  });
});
