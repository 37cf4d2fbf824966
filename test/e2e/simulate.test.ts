// The model behind `npm run -s simulate`, beside what real gateways do.
import { execFile } from "node:child_process";
import { readFileSync } from "node:fs";
import { promisify } from "node:util";

import { createClient } from "@redis/client";
import { expect, it } from "vitest";

import { fewestGateways, handedOver, measuredCosts, sessionCommands } from "../../scripts/simulate/model.ts";
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
  const load = { sessions: 100_000, sessionHours: 24, callsPerSecond: 100_000, heldPart: 0, isSticky: false };
  const [plain, held] = [fewestGateways(load), fewestGateways({ ...load, heldPart: 1 })];
  const sticky = fewestGateways({ ...load, heldPart: 1, isSticky: true });
  expect(held.gateways).toBeGreaterThan(plain.gateways);
  expect(sticky.gateways).toBe(plain.gateways);
  expect(sticky.memoryEach).toBeCloseTo(plain.memoryEach / plain.gateways);
  expect(sticky.handedOverPerSecond).toBe(0);
});

it("has the figures of the guide", async () => {
  const guide = readFileSync("docs/guides/more-than-one.md", "utf8");
  const [, options = ""] = /npm run -s simulate -- (--.*)/u.exec(guide) ?? [];
  const { stdout } = await promisify(execFile)(process.execPath, ["scripts/simulate.ts", ...options.split(" ")]);
  expect(guide).toContain(`\`\`\`text\n${stdout}\`\`\``);
  const { callsPerSecond, sessionBytes } = measuredCosts;
  expect(guide).toContain(`${callsPerSecond.toLocaleString("en")} calls per second`);
  expect(guide).toContain(`${sessionBytes / 1000} KB per session`);
  const number = (text = ""): number => Number(text.replaceAll(",", ""));
  const table = [
    ...guide.matchAll(/^\| ([\d,]+) sessions, ([\d,]+) calls.*?\| (\d+).*?\| ([\d.]+) GB.*?\| ([\d.]+) GB/gmu),
  ];
  expect(table).toHaveLength(3);
  for (const [, sessions, calls, gateways, memory, sticky] of table) {
    const load = {
      sessions: number(sessions),
      sessionHours: 24,
      callsPerSecond: number(calls),
      heldPart: 0,
      isSticky: false,
    };
    const plain = fewestGateways(load);
    const gigabytes = (bytes: number): string => (bytes / 1e9).toLocaleString("en", { maximumFractionDigits: 1 });
    expect([plain.gateways, gigabytes(plain.memoryEach)]).toEqual([number(gateways), memory]);
    expect(gigabytes(fewestGateways({ ...load, isSticky: true }).memoryEach)).toBe(sticky);
  }
});
