// Gateways restarted one by one behind a proxy that notices late: what comes after a gateway has begun to shut down is served by
// the one that stays.
import { readFileSync } from "node:fs";
import { resolve } from "node:path";

import { expect, it } from "vitest";

import type { ConfigInput } from "../../src/config/schema.ts";
import { startCaddy } from "../support/caddy.ts";
import { eventually } from "../support/eventually.ts";
import { startFixture } from "../support/fixture.ts";
import { freePort } from "../support/free-port.ts";
import { openSession, textResult, toolCall } from "../support/legacy-session.ts";
import { legacyUpstream, type Answering } from "../support/legacy-upstream.ts";
import { modernRequest, postModern } from "../support/modern-request.ts";
import { startNginxWith } from "../support/nginx.ts";
import { post, type RawAnswer } from "../support/raw-http.ts";
import { startRedis } from "../support/redis.ts";
import { replicaConfig } from "../support/replica-config.ts";
import { type RestartableGateway, startRestartable } from "../support/restartable-gateway.ts";
import { startRoundRobin } from "../support/round-robin.ts";

const nginxExample = resolve(import.meta.dirname, "../../examples/deploy/gateway/nginx.conf");
const caddyExample = resolve(import.meta.dirname, "../../examples/deploy/gateway/Caddyfile");
const pidServer = resolve(import.meta.dirname, "../fixtures/stdio/pid.mjs");
const sessionsEach = 3;

it("fails no call of any kind of server while gateways finish slow ones, and loses no session", async () => {
  const held: (() => void)[] = [];
  const answer: Answering = (call, { id, params }) => {
    const reply = (): void => call.reply(textResult(id, "done"));
    if (params?.["name"] === "slow") held.push(reply);
    else reply();
  };
  await using redis = await startRedis();
  await using web = await legacyUpstream(answer);
  await using fixture = await startFixture({ era: "legacy" });
  const routes: NonNullable<ConfigInput["routes"]> = {
    web: { upstream: { url: web.url } },
    stdio: { upstream: { command: process.execPath, args: [pidServer] } },
    "http-sse": { upstream: { url: fixture.sseUrl ?? "", transport: "sse" } },
    "in-process": { upstream: { demo: true } },
  };
  const config: ConfigInput = { ...replicaConfig(redis.state, { routes }), shutdown: { grace: "1m" } };
  await using one = await startRestartable(config);
  await using two = await startRestartable(config);
  await using proxy = await startRoundRobin([one.origin, two.origin]);
  const tools: Readonly<Record<string, unknown>> = {
    web: toolCall(1, "quick"),
    stdio: toolCall(1, "pid"),
    "http-sse": toolCall(1, "test_simple_text"),
    "in-process": toolCall(1, "add", { arguments: { a: 1, b: 2 } }),
  };
  const failures: string[] = [];
  const load = { isOver: false, answered: 0 };
  const keepCalling = async (name: string, call: () => Promise<RawAnswer>): Promise<void> => {
    while (!load.isOver) {
      try {
        const { status, text } = await call();
        if (status !== 200 || !text.includes('"result"')) failures.push(`${name}: ${status} ${text}`);
      } catch (error) {
        failures.push(`${name}: ${String(error)}`);
      }
      load.answered++;
    }
  };
  const calling = Object.keys(routes).flatMap((route) =>
    Array.from({ length: sessionsEach }, async () => {
      const session = await openSession(`${proxy.origin}/${route}/mcp`);
      await keepCalling(route, () => session.post(tools[route]));
    }),
  );
  const modern = modernRequest(1, "tools/call", { name: "add", arguments: { a: 1, b: 2 } });
  calling.push(keepCalling("modern", () => postModern(`${proxy.origin}/in-process/mcp`, modern)));
  let begun = sessionsEach;
  const begin = async (): Promise<RawAnswer> => {
    begun++;
    const session = await openSession(`${proxy.origin}/web/mcp`);
    const answered = await session.post(tools["web"]);
    expect((await session.end()).status).toBe(200);
    return answered;
  };
  calling.push(keepCalling("new session", begin));

  for (const gateway of [one, two]) {
    begun++;
    const slow = await openSession(`${gateway.origin}/web/mcp`);
    const local = await openSession(`${gateway.origin}/stdio/mcp`);
    const pidOf = async () => (await post(`${proxy.origin}/stdio/mcp`, tools["stdio"], local.headers)).text;
    await eventually(async () => expect(await pidOf()).toContain("result"));
    const before = await pidOf();
    const running = slow.post(toolCall(7, "slow"));
    await eventually(() => expect(held).toHaveLength(1));
    const stopped = gateway.stop("SIGTERM");
    // The other gateway runs its servers now, while it still waits for the slow call.
    await eventually(async () => {
      const text = await pidOf();
      expect(text).toContain("result");
      expect(text).not.toBe(before);
    });
    const answered = load.answered;
    await eventually(() => expect(load.answered).toBeGreaterThan(answered + 50));
    // Now the proxy has noticed, and what it has sent there is answered: connections would break under it.
    proxy.servers.splice(proxy.servers.indexOf(gateway.origin), 1);
    const handedOver = load.answered;
    await eventually(() => expect(load.answered).toBeGreaterThan(handedOver + 50));
    for (const reply of held.splice(0)) reply();
    expect(await running).toMatchObject({ status: 200, json: { id: 7, result: {} } });
    await stopped;
    await gateway.start();
    proxy.servers.push(gateway.origin);
  }
  load.isOver = true;
  await Promise.all(calling);
  expect(failures).toEqual([]);
  // Nothing was opened anew where it need not be.
  expect(web.sessions).toHaveLength(begun);
  // Restarts under load, with delays that belong to them: on a busy machine they take two minutes.
}, 600_000);

it("fails no call behind nginx as the example configures it, which knows of no restart and sends on until it is refused", async () => {
  await using redis = await startRedis();
  await using web = await legacyUpstream((call, { id }) => call.reply(textResult(id, "done")));
  const routes = { web: { upstream: { url: web.url } }, modern: { upstream: { demo: true as const } } };
  const config: ConfigInput = { ...replicaConfig(redis.state, { routes }), shutdown: { grace: "1m" } };
  await using one = await startRestartable(config);
  await using two = await startRestartable(config);
  const [, block = ""] = /^http \{\n([\s\S]*)^\}/mu.exec(readFileSync(nginxExample, "utf8")) ?? [];
  await using nginx = await startNginxWith((port) =>
    block
      .replace("access_log off;", "")
      .replaceAll("one:8484", new URL(one.origin).host)
      .replaceAll("two:8484", new URL(two.origin).host)
      .replace("listen 8080", `listen 127.0.0.1:${port}`),
  );
  const load = await startLoad(nginx.origin);
  for (const gateway of [one, two]) {
    // Without a pause: nginx has just found the first one gone when the second one goes.
    await gateway.restart("SIGTERM");
    await load.more(20);
  }
  const failures = await load.stop();
  if (failures.length > 0) failures.push(nginx.output());
  expect(failures).toEqual([]);
  expect(web.sessions).toHaveLength(sessionsEach);
}, 600_000);

it("fails no call behind Caddy as the example configures it, which asks for readiness", async () => {
  await using redis = await startRedis();
  await using web = await legacyUpstream((call, { id }) => call.reply(textResult(id, "done")));
  const routes = { web: { upstream: { url: web.url } }, modern: { upstream: { demo: true as const } } };
  // The example knows one port for all health checks, so each gateway has an address of its own.
  const adminPort = await freePort();
  const base = { ...replicaConfig(redis.state, { routes }), shutdown: { grace: "1m", readinessDelay: "10s" } };
  const configOf = (host: string): ConfigInput => ({ ...base, listen: { host }, admin: { host, port: adminPort } });
  await using one = await startRestartable(configOf("127.0.0.2"));
  await using two = await startRestartable(configOf("127.0.0.3"));
  await using caddy = await startCaddy((port) =>
    readFileSync(caddyExample, "utf8")
      .replace("mcp.example.com", `http://127.0.0.1:${port}`)
      .replace("one:8484", new URL(one.origin).host)
      .replace("two:8484", new URL(two.origin).host)
      .replace("health_port 8485", `health_port ${adminPort}`),
  );
  const timesUp = (gateway: RestartableGateway): number =>
    caddy.output().match(new RegExp(`host is up.*${new URL(gateway.origin).hostname}`, "gu"))?.length ?? 0;
  const load = await startLoad(caddy.origin);
  for (const gateway of [one, two]) {
    const before = timesUp(gateway);
    await gateway.restart("SIGTERM");
    await eventually(() => expect(timesUp(gateway)).toBeGreaterThan(before));
    await load.more(20);
  }
  const failures = await load.stop();
  if (failures.length > 0) failures.push(caddy.output());
  expect(failures).toEqual([]);
  expect(web.sessions).toHaveLength(sessionsEach);
}, 600_000);

/** Clients of both eras behind a proxy, each with one call after the other. */
async function startLoad(origin: string) {
  const failures: string[] = [];
  let isOver = false;
  let answered = 0;
  const keepCalling = async (call: () => Promise<RawAnswer>): Promise<void> => {
    while (!isOver) {
      const { status, text } = await call();
      if (status !== 200 || !text.includes('"result"')) failures.push(`${status} ${text}`);
      answered++;
    }
  };
  const modern = modernRequest(1, "tools/call", { name: "add", arguments: { a: 1, b: 2 } });
  const calling = [keepCalling(() => postModern(`${origin}/modern/mcp`, modern))];
  for (let count = 0; count < sessionsEach; count++) {
    const session = await openSession(`${origin}/web/mcp`);
    calling.push(keepCalling(() => session.post(toolCall(1, "quick"))));
  }
  return {
    /** Waits for some more answers. */
    more: async (count: number): Promise<void> => {
      const before = answered;
      await eventually(() => expect(answered).toBeGreaterThan(before + count));
    },
    /** Ends it; returns what failed. */
    stop: async (): Promise<string[]> => {
      isOver = true;
      await Promise.all(calling);
      return failures;
    },
  };
}
