import { describe, expect, it } from "vitest";
import { createFakeTime } from "../../../../test/support/fake-time.ts";
import { principalNamed } from "../../../../test/support/principals.ts";
import { createProcessSeals } from "../../../lib/keys/sealing.ts";
import { perTurn } from "../../../lib/turn-limiter.ts";
import { openEndedSessions } from "../../../sessions/ended-sessions.ts";
import { createSessionRegistry } from "../../../sessions/registry.ts";
import type { Session } from "../../../sessions/session.ts";
import { createListChanges } from "./list-changes.ts";

describe("a change of the lists of many sessions", () => {
  it("is told to a bounded number per turn of the event loop, and not to those that have ended", async () => {
    const time = createFakeTime();
    let ids = 0;
    const registry = createSessionRegistry({
      limits: { sessions: 1000, sessionsPerPrincipal: 1000, idleMs: 60_000, ageMs: 600_000 },
      clock: time.clock,
      setTimer: time.setTimer,
      newId: () => `id-${ids++}`,
      node: "0000000a",
      seal: createProcessSeals().session,
      isDurable: true,
      ended: openEndedSessions(undefined, time.clock.wall),
    });
    const told: Session[] = [];
    const changes = createListChanges("files", registry, (session) => void told.push(session));
    const sessions = Array.from({ length: 3 * perTurn }, () => {
      const session = registry.open("files", principalNamed("alice"));
      session.lists = ["tools"];
      return session;
    });
    changes.announce();
    expect(told).toHaveLength(perTurn);
    sessions.at(-1)?.end("gone", "client");
    await expect.poll(() => told.length).toBe(sessions.length - 1);
    expect(told).toEqual(sessions.slice(0, -1));
  });
});
