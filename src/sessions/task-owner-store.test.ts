import { mkdtempSync, rmSync, statSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";

import { expect, it, onTestFinished } from "vitest";

import { openTaskOwnerStore } from "./task-owner-store.ts";

it("remembers the first owner of a task until its time, in every process that uses the folder", () => {
  const folder = mkdtempSync(join(tmpdir(), "headgate-tasks-"));
  onTestFinished(() => rmSync(folder, { recursive: true }));
  const [one, other] = [openTaskOwnerStore(folder, () => 5), openTaskOwnerStore(folder, () => 5)];
  one.set("task", "alice", 100);
  other.set("task", "bob", 100);
  expect([one.get("task"), other.get("task"), other.get("another")]).toEqual(["alice", "alice", undefined]);
  expect(statSync(join(folder, "tasks.sqlite")).mode & 0o077).toBe(0);
  one.close();
  other.close();
  const later = openTaskOwnerStore(folder, () => 100);
  expect(later.get("task")).toBeUndefined();
  later.close();
});
