import { describe, expect, it } from "vitest";
import { createFakeTime } from "../../test/support/fake-time.ts";
import { principalNamed } from "../../test/support/principals.ts";
import { GatewayError } from "../errors.ts";
import { createSessionRegistry } from "./registry.ts";
import type { SessionLimits } from "./registry.ts";

const alice = principalNamed("alice");
const bob = principalNamed("bob");

function registry(limits: Partial<SessionLimits> = {}) {
  const time = createFakeTime();
  let ids = 0;
  const sessions = createSessionRegistry({
    limits: { sessions: 10, sessionsPerPrincipal: 5, idleMs: 60_000, ageMs: 600_000, ...limits },
    clock: time.clock,
    setTimer: time.setTimer,
    newId: () => `id-${ids++}`,
  });
  return { time, sessions };
}

describe("session registry", () => {
  it("finds a session only for its principal and route; to others it is unknown", () => {
    const { sessions } = registry();
    const session = sessions.open("files", alice);
    expect(sessions.find(session.id, "files", alice)).toBe(session);
    expect(sessions.find(session.id, "files", bob)).toBeUndefined();
    expect(sessions.find(session.id, "mail", alice)).toBeUndefined();
    expect(sessions.find("nobody", "files", alice)).toBeUndefined();
  });

  it("[SC-071] ends idle sessions, but never one with running requests", async () => {
    const { time, sessions } = registry();
    const idle = sessions.open("files", alice);
    const busy = sessions.open("files", alice);
    busy.running = 1;
    await time.advance(80_000);
    expect([idle.state, busy.state]).toEqual(["closed", "initializing"]);
    expect(sessions.find(idle.id, "files", alice)).toBeUndefined();
    expect(sessions.size).toBe(1);
  });

  it("[SC-071] ends sessions at their age limit, however busy", async () => {
    const { time, sessions } = registry();
    const session = sessions.open("files", alice);
    session.running = 1;
    const reasons: string[] = [];
    session.onEnd((reason) => reasons.push(reason));
    await time.advance(620_000);
    expect(reasons).toEqual(["the session has reached its age limit"]);
  });

  it("[SC-071] makes a flood evict only itself: the oldest idle session of the same principal", async () => {
    const { time, sessions } = registry({ sessionsPerPrincipal: 2 });
    const others = sessions.open("files", bob);
    const first = sessions.open("files", alice);
    await time.advance(1);
    const second = sessions.open("files", alice);
    await time.advance(1);
    first.touch(time.clock.now());
    sessions.open("files", alice);
    expect([others.isOver, first.isOver, second.isOver]).toEqual([false, false, true]);
  });

  it("refuses with the numbers and when to come back where all are busy", () => {
    const { sessions } = registry({ sessionsPerPrincipal: 1 });
    sessions.open("files", alice).running = 1;
    try {
      sessions.open("files", alice);
      expect.unreachable();
    } catch (error) {
      expect(GatewayError.from(error)).toMatchObject({
        code: "overloaded",
        details: { current: 1, limit: 1, retryAfter: 5 },
      });
    }
  });

  it("[SC-071] evicts a session of the principal with the most when all places are taken", async () => {
    const { time, sessions } = registry({ sessions: 3 });
    const modest = sessions.open("files", bob);
    await time.advance(1);
    const greedy = [sessions.open("files", alice), sessions.open("files", alice)];
    sessions.open("files", principalNamed("carol"));
    expect([modest.isOver, greedy[0]?.isOver, greedy[1]?.isOver]).toEqual([false, true, false]);
  });

  it("ends all at close, and stops its timer", () => {
    const { time, sessions } = registry();
    const session = sessions.open("files", alice);
    sessions.close("bye");
    expect([session.state, sessions.size]).toEqual(["closed", 0]);
    expect(time.pending()).toBe(0);
  });
});
