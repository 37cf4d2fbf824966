// The model behind `npm run -s simulate`, beside what real gateways do.
import { createClient } from "@redis/client";
import { expect, it } from "vitest";

import { fewestGateways, handedOver, sessionCommands } from "../../scripts/simulate/model.ts";
import { eventually } from "../support/eventually.ts";
import { startFixture, stdioFixture } from "../support/fixture.ts";
import { openSession, toolCall } from "../support/legacy-session.ts";
import { post } from "../support/raw-http.ts";
import { startRedis } from "../support/redis.ts";
import { openPair } from "../support/replicas.ts";

const sendVia = async (url: string, headers: Readonly<Record<string, string>>) =>
  post(url, toolCall(1, "test_simple_text"), headers);

it("foresees the commands for sessions and the calls that are handed over", async () => {
  await using redis = await startRedis();
  await using fixture = await startFixture({ era: "legacy" });
  const [command, ...args] = stdioFixture({ era: "legacy" });
  const routes = { web: { upstream: { url: fixture.url } }, local: { upstream: { command, args } } };
  await using pair = await openPair(redis.state, { routes });
  const seen: string[] = [];
  const watcher = createClient({ url: redis.url });
  watcher.on("error", () => {});
  await watcher.connect();
  using _closing = { [Symbol.dispose]: () => watcher.destroy() };
  await watcher.monitor((line) => seen.push(line));
  // Everything but the lease: lookups of ended sessions, notes who has them, their ends, and the notices of that. An end is
  // told again if the store was slow to answer, so each counts once.
  const counted = (): number => {
    const commands = seen.flatMap((line) => /"[A-Z]+" "hg:(?:ended:|users:|notices" ")[^"]+/u.exec(line) ?? []);
    const kinds = [/^"(?:MGET|SADD|PEXPIRE)/u, /^"(?:SET|PUBLISH)/u];
    const [lookups, ends] = kinds.map((kind) => commands.filter((text) => kind.test(text)));
    return (lookups?.length ?? 0) + new Set(ends).size;
  };

  const sessions = await Promise.all(Array.from({ length: 5 }, async () => openSession(`${pair.one.origin}/web/mcp`)));
  const web = `${pair.proxy.origin}/web/mcp`;
  const local = await openSession(`${pair.one.origin}/local/mcp`);
  const calls = 8;
  for (const session of sessions)
    for (let count = 0; count < calls; count++) expect((await sendVia(web, session.headers)).status).toBe(200);
  for (const session of sessions) await session.end();
  await eventually(() => expect(counted()).toBe(sessionCommands(sessions.length, 2)));
  for (let count = 0; count < calls; count++)
    expect((await sendVia(`${pair.proxy.origin}/local/mcp`, local.headers)).status).toBe(200);
  const metrics = `${pair.one.gateway.metrics()}${pair.two.gateway.metrics()}`;
  const forwarded = [...metrics.matchAll(/^headgate_forwarded_requests_total\{[^}]*\} (\d+)$/gmu)];
  expect(forwarded.reduce((sum, [, count]) => sum + Number(count), 0)).toBe(handedOver(calls, 2));
});

it("needs more gateways for calls that are handed over, and fewer bytes where clients stay at one", () => {
  const load = { sessions: 100_000, sessionHours: 24, callsPerSecond: 10_000, heldPart: 0, isSticky: false };
  const [plain, held] = [fewestGateways(load), fewestGateways({ ...load, heldPart: 1 })];
  const sticky = fewestGateways({ ...load, heldPart: 1, isSticky: true });
  expect([plain.gateways, held.gateways, sticky.gateways]).toEqual([2, 3, 2]);
  expect(sticky.memoryEach).toBe(plain.memoryEach / 2);
  expect(sticky.handedOverPerSecond).toBe(0);
});
