import { describe, expect, it } from "vitest";
import { createFakeTime } from "../../test/support/fake-time.ts";
import { principalNamed } from "../../test/support/principals.ts";
import { GatewayError } from "../errors.ts";
import { createProcessSeals, createSeals } from "../lib/keys/sealing.ts";
import { type EndedSessions, openEndedSessions } from "./ended-sessions.ts";
import { createSessionRegistry } from "./registry.ts";
import type { SessionLimits } from "./registry.ts";

const alice = principalNamed("alice");
const bob = principalNamed("bob");

function registry(limits: Partial<SessionLimits> = {}, process = newMachine()) {
  const { time, seals, ended } = process;
  const sessions = createSessionRegistry({
    limits: { sessions: 10, sessionsPerPrincipal: 5, idleMs: 60_000, ageMs: 600_000, ...limits },
    clock: time.clock,
    setTimer: time.setTimer,
    newId: () => `id-${process.ids++}`,
    node: "0000000a",
    seal: seals.session,
    isDurable: true,
    ended,
  });
  return { time, sessions };
}

/** What processes on one machine share. */
function newMachine(max?: number) {
  const time = createFakeTime();
  return {
    time,
    seals: createProcessSeals(),
    ended: openEndedSessions(undefined, time.clock.wall, max === undefined ? {} : { max }),
    ids: 0,
  };
}

describe("session registry", () => {
  it("finds a session only for its principal and route; to others it is unknown", () => {
    const { sessions } = registry();
    const session = sessions.open("files", alice);
    const id = sessions.sealId(session);
    expect(sessions.find(id, "files", alice)).toBe(session);
    expect(sessions.find(id, "files", bob)).toBeUndefined();
    expect(sessions.find(id, "mail", alice)).toBeUndefined();
    expect(sessions.find("nobody", "files", alice)).toBeUndefined();
    // The id inside is not secret, so it opens nothing.
    expect(sessions.find(session.id, "files", alice)).toBeUndefined();
  });

  it("[SC-071] ends idle sessions, but never one with running requests", async () => {
    const { time, sessions } = registry();
    const idle = sessions.open("files", alice);
    const busy = sessions.open("files", alice);
    const id = sessions.sealId(idle);
    busy.running = 1;
    await time.advance(80_000);
    expect([idle.state, busy.state]).toEqual(["closed", "initializing"]);
    expect(sessions.find(id, "files", alice)).toBeUndefined();
    expect(sessions.restore(id, "files", alice)).toBeUndefined();
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

/** A machine that forgets what has ended as soon as it may, as a store of several gateways does. */
function forgetfulMachine() {
  const machine = newMachine();
  const until = new Map<string, number>();
  const isListed = (id: string): boolean => (until.get(id) ?? 0) > machine.time.clock.wall();
  const ended: EndedSessions = {
    add: ({ id, expiresAt }) => void until.set(id, expiresAt),
    has: ({ id }) => isListed(id),
    isListed,
    close: () => {},
  };
  return { ...machine, ended };
}

describe("a session in another process", () => {
  const handshake = { protocolVersion: "2025-11-25", capabilities: '{"roots":{}}', clientInfo: '{"name":"c"}' };

  function opened(machine = newMachine(), limits: Partial<SessionLimits> = {}) {
    const { sessions } = registry(limits, machine);
    const session = sessions.open("files", alice);
    session.revision = "2025-06-18";
    session.handshake = handshake;
    session.lists = ["tools", "resources"];
    session.readUpstream = () => ({ id: "theirs", at: "there" });
    const id = sessions.sealId(session);
    return { machine, sessions, session, id, another: () => registry(limits, machine).sessions };
  }

  it("goes on with everything that its id carries", () => {
    const { session, id, another } = opened();
    const other = another();
    expect(other.find(id, "files", alice)).toBeUndefined();
    expect(other.restore(id, "files", alice)).toMatchObject({
      isNew: true,
      session: { id: session.id, state: "active", revision: "2025-06-18", survivesRestart: true },
      record: { handshake, lists: ["tools", "resources"], upstream: { id: "theirs", at: "there" } },
    });
    expect(other.find(id, "files", alice)?.id).toBe(session.id);
    expect(other.restore(id, "files", alice)).toMatchObject({ isNew: false });
  });

  it("is unknown to other principals and on other routes", () => {
    const { id, another } = opened();
    expect(another().restore(id, "files", bob)).toBeUndefined();
    expect(another().restore(id, "mail", alice)).toBeUndefined();
  });

  it("is unknown where the keys are others", () => {
    const { machine, id } = opened();
    const stranger = registry({}, { ...machine, seals: createSeals([Buffer.alloc(32, 1)]) }).sessions;
    expect(stranger.restore(id, "files", alice)).toBeUndefined();
  });

  it("stays ended once it has ended, for whatever reason but a restart", () => {
    for (const cause of ["client", "idle", "age", "evicted", "upstream", "refused", "reload"] as const) {
      const { session, id, another, sessions } = opened();
      session.end("over", cause);
      expect([sessions.restore(id, "files", alice), another().restore(id, "files", alice)]).toEqual([
        undefined,
        undefined,
      ]);
    }
    const { session, id, another } = opened();
    session.end("the process ends", "shutdown");
    expect(another().restore(id, "files", alice)).toBeDefined();
  });

  it("ends at the age limit, counted from when it was opened", async () => {
    const { machine, id, another } = opened(newMachine(), { idleMs: 1e9 });
    await machine.time.advance(599_000);
    const late = another();
    expect(late.restore(id, "files", alice)).toBeDefined();
    await machine.time.advance(20_000);
    expect(late.size).toBe(0);
    expect(another().restore(id, "files", alice)).toBeUndefined();
  });

  it.each([1, 10, 1000])(
    "stays as it was if the age limit is %s times as long later: ended, or with its own age",
    async (factor) => {
      const { machine, id, sessions } = opened(forgetfulMachine(), { idleMs: 1e9 });
      const { session: ended, id: endedId } = opened(machine, { idleMs: 1e9 });
      ended.end("the client ended it");
      const { sessions: later } = registry({ idleMs: 1e9, ageMs: 600_000 * factor }, machine);
      expect(later.restore(id, "files", alice)).toBeDefined();
      for (let time = 0; time < 1_600_000; time += 50_000) {
        await machine.time.advance(50_000);
        expect(later.restore(endedId, "files", alice)).toBeUndefined();
      }
      expect(later.restore(id, "files", alice)).toBeUndefined();
      expect([sessions.size, later.size]).toEqual([0, 0]);
    },
  );

  it("stays ended for a gateway whose clock is late", async () => {
    const { machine, session, id } = opened(forgetfulMachine(), { idleMs: 1e9 });
    session.end("the client ended it");
    await machine.time.advance(610_000);
    const { clock } = machine.time;
    const slow = { ...machine, time: { ...machine.time, clock: { ...clock, wall: () => clock.wall() - 50_000 } } };
    expect(registry({ idleMs: 1e9 }, slow).sessions.restore(id, "files", alice)).toBeUndefined();
  });

  it("takes a place like any other", () => {
    const { id, another } = opened(newMachine(), { sessionsPerPrincipal: 1 });
    const other = another();
    other.open("files", alice).running = 1;
    expect(() => other.restore(id, "files", alice)).toThrow(GatewayError);
  });

  it("counts as ended if it is as old as ended ones that had to be forgotten", async () => {
    const machine = newMachine(20);
    const { id: old, another } = opened(machine);
    await machine.time.advance(10);
    for (let count = 0; count < 25; count++) {
      opened(machine).session.end("over");
      await machine.time.advance(1);
    }
    const { id: fresh } = opened(machine);
    expect(another().restore(old, "files", alice)).toBeUndefined();
    expect(another().restore(fresh, "files", alice)).toBeDefined();
  });
});
