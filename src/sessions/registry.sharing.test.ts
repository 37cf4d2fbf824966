import { expect, it } from "vitest";

import { createFakeTime } from "../../test/support/fake-time.ts";
import { principalNamed } from "../../test/support/principals.ts";
import { createProcessSeals } from "../lib/keys/sealing.ts";
import { openEndedSessions } from "./ended-sessions.ts";
import { createSessionRegistry, type SessionRegistry } from "./registry.ts";
import type { SessionEndCause } from "./session.ts";

const alice = principalNamed("alice");

/** Two gateways that share sessions. */
function bench(sessions = 10) {
  const time = createFakeTime();
  const [seals, ended] = [createProcessSeals(), openEndedSessions(undefined, time.clock.wall)];
  const users = new Map<string, Set<string>>();
  let ids = 0;
  const open = (node: string): SessionRegistry =>
    createSessionRegistry({
      limits: { sessions, sessionsPerPrincipal: 10, idleMs: 60_000, ageMs: 6_000_000 },
      clock: time.clock,
      setTimer: time.setTimer,
      newId: () => `id-${ids++}`,
      node,
      seal: seals.session,
      isDurable: true,
      ended,
      sharing: {
        joined: ({ id, openedBy }) => users.set(id, new Set([...(users.get(id) ?? []), node, openedBy])),
        left: async (id) => {
          users.get(id)?.delete(node);
          return (users.get(id)?.size ?? 0) > 0;
        },
      },
    });
  return { time, users, one: open("one"), two: open("two") };
}

function openedAt(registry: SessionRegistry) {
  const session = registry.open("files", alice);
  const causes: SessionEndCause[] = [];
  session.onEnd((_reason, cause) => causes.push(cause));
  return { session, causes, sealedId: registry.sealId(session) };
}

it("forgets a session that is idle here and used elsewhere; the last to use it ends it", async () => {
  const { one, two, time } = bench();
  const { sealedId, causes } = openedAt(one);
  const restored = await two.restore(sealedId, "files", alice);
  for (let minute = 0; minute < 3; minute++) {
    restored?.session.touch(time.clock.now());
    await time.advance(50_000);
  }
  expect([causes, one.size, two.size]).toEqual([["moved"], 0, 1]);
  // It may come back.
  expect(await one.restore(sealedId, "files", alice)).toBeDefined();
  await time.advance(200_000);
  expect([one.size, two.size]).toEqual([0, 0]);
  expect(await one.restore(sealedId, "files", alice)).toBeUndefined();
});

it("ends an idle session that no other gateway has", async () => {
  const { one, time } = bench();
  const { sealedId, causes } = openedAt(one);
  await time.advance(80_000);
  expect(causes).toEqual(["idle"]);
  expect(await one.restore(sealedId, "files", alice)).toBeUndefined();
});

it("keeps one that was used while others were asked", async () => {
  const { one, two, time, users } = bench();
  const { session, sealedId, causes } = openedAt(one);
  await two.restore(sealedId, "files", alice);
  await time.advance(59_999);
  session.onEnd(() => {});
  const asked = time.advance(1);
  session.touch(time.clock.now() + 1);
  await asked;
  expect(causes).toEqual([]);
  expect([...(users.get(session.id) ?? [])]).toContain("one");
});

it("evicts a session here alone where others use it", async () => {
  const { one, two, time } = bench(1);
  const { sealedId, causes } = openedAt(one);
  await two.restore(sealedId, "files", alice);
  one.open("files", alice);
  await time.advance(0);
  expect(causes).toEqual(["moved"]);
  expect(two.find(sealedId, "files", alice)).toBeDefined();
  const unshared = openedAt(two);
  two.open("files", alice);
  await time.advance(0);
  expect(await two.restore(unshared.sealedId, "files", alice)).toBeUndefined();
});

it("lets go of a session that another gateway has taken over, which is not its end", async () => {
  const { one } = bench();
  const { session, sealedId, causes } = openedAt(one);
  one.letGo(session.id);
  expect(causes).toEqual(["moved"]);
  expect(await one.restore(sealedId, "files", alice)).toBeDefined();
});
