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
    one.add({ id: "a", openedAt: 1, expiresAt: 100 });
    expect([other.has({ id: "a", openedAt: 1 }), other.has({ id: "b", openedAt: 1 })]).toEqual([true, false]);
    one.close();
    other.close();
    const later = openEndedSessions(folder, () => 5);
    expect(later.has({ id: "a", openedAt: 1 })).toBe(true);
    later.close();
  });

  it("are private", () => {
    expect(statSync(join(folder, "sessions.sqlite")).mode & 0o077).toBe(0);
  });
});
