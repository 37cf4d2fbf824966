import { systemClock, systemTimer } from "../src/core/exchange.ts";
import { createProcessSeals } from "../src/lib/keys/sealing.ts";
import { openEndedSessions } from "../src/sessions/ended-sessions.ts";
import { createSessionRegistry } from "../src/sessions/registry.ts";
import { principalNamed } from "../test/support/principals.ts";
import { medianOf } from "./load/rounds.ts";
import type { BenchRow } from "./row.ts";

const turns = 2000;

/** What it costs to find a session that is here by its sealed id. */
export async function foundMicros(): Promise<number> {
  return (await measure()).found;
}

/** What it costs to open a session again that began in another process, and to find one that is here. */
export async function run(): Promise<BenchRow[]> {
  const { restored, found, note } = await measure();
  return [
    {
      name: "a session of another process, opened by its id",
      value: restored,
      unit: "µs",
      threshold: { max: 50 },
      note,
    },
    {
      name: "a session of this process, found by its id",
      value: found,
      unit: "µs",
      threshold: { max: 2 },
      note,
    },
  ];
}

async function measure(): Promise<{ readonly restored: number; readonly found: number; readonly note: string }> {
  const limits = { sessions: 1e6, sessionsPerPrincipal: 1e6, idleMs: 1e9, ageMs: 1e9 };
  const ended = openEndedSessions(undefined, systemClock.wall);
  const seal = createProcessSeals().session;
  let ids = 0;
  const newRegistry = () =>
    createSessionRegistry({
      limits,
      clock: systemClock,
      setTimer: systemTimer,
      newId: () => `session-${ids++}`,
      node: "0000000a",
      seal,
      isDurable: true,
      ended,
    });
  const alice = principalNamed("alice");
  const first = newRegistry();
  const sealedIds = Array.from({ length: turns }, () => {
    const session = first.open("route", alice);
    session.handshake = {
      protocolVersion: "2025-11-25",
      capabilities: '{"roots":{"listChanged":true},"sampling":{},"elicitation":{"form":{},"url":{}}}',
      clientInfo: '{"name":"a-client-with-a-name","version":"1.2.3"}',
    };
    session.readUpstream = () => ({ id: crypto.randomUUID(), at: "0123456789ab" });
    return first.sealId(session);
  });
  const microsOf = (act: (sealedId: string) => unknown): number => {
    const start = process.cpuUsage();
    for (const sealedId of sealedIds) act(sealedId);
    const { user, system } = process.cpuUsage(start);
    return (user + system) / turns;
  };
  const restored = Array.from({ length: 9 }, () => {
    const other = newRegistry();
    return microsOf((sealedId) => other.restore(sealedId, "route", alice));
  });
  const found = Array.from({ length: 9 }, () => microsOf((sealedId) => first.find(sealedId, "route", alice)));
  ended.close();
  return {
    restored: medianOf(restored, (micros) => micros),
    found: medianOf(found, (micros) => micros),
    note: `${sealedIds[0]?.length} characters`,
  };
}
