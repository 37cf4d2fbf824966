import { Agent, request } from "node:http";

import { anonymous, systemClock, systemTimer, type Principal } from "../src/core/exchange.ts";
import { InspectedMessage } from "../src/core/interceptors/inspected-message.ts";
import type { Handler } from "../src/core/pipeline.ts";
import { parseConfig } from "../src/config/load.ts";
import type { ConfigInput } from "../src/config/schema.ts";
import { startMockAuthZen } from "../src/policy/testing/mock-authzen.ts";
import { createAuthZenProvider } from "../src/policy/authzen/provider.ts";
import { withDeadline } from "../src/policy/provider/fail-open.ts";
import { createEnforcement } from "../src/policy/enforce.ts";
import type { Explanation, PolicyCall, PolicyProvider } from "../src/policy/provider/provider.ts";
import { startMockPingAuthorize } from "../src/policy/testing/mock-ping-authorize.ts";
import { createSidebandProvider } from "../src/policy/sideband/provider.ts";
import type { Message } from "../src/protocol/message.ts";
import { exchangeOf, messageOf } from "./bare-exchange.ts";
import { measure, median } from "./measure.ts";
import type { BenchRow } from "./row.ts";

/** Messages a round, one after the other: this is about the time of each. */
const count = 200;
/** Looks into the cache a round. */
const looks = 20_000;

const ann: Principal = {
  ...anonymous,
  id: "https://issuer.example#ann",
  kind: "token",
  scopes: new Set(["read"]),
  claims: {
    iss: "https://issuer.example",
    sub: "ann",
    aud: "https://mcp.example.com",
    client_id: "agent",
  },
};
const call: PolicyCall = { memory: undefined, signal: new AbortController().signal };
const explanation: Explanation = { provider: "bare", rule: undefined, read: [], durationMs: 0 };
const secret = { header: "CLIENT-TOKEN", value: "secret" };

/**
 * What asking a decision point elsewhere costs beside its own round trip. The same messages pass the same enforcement
 * twice: with the provider, and with one that sends the same bytes to the same decision point by plain `node:http` and
 * looks at nothing. Both decision points are mocks in this process, so their time is part of both.
 */
export async function run(): Promise<BenchRow[]> {
  await using authzen = await startMockAuthZen();
  await using keeping = await startMockAuthZen({ headers: { "cache-control": "max-age=3600" } });
  await using ping = await startMockPingAuthorize({ secret });
  const exchange = exchangeOf(callOf(), ann);

  const asking = authZenOf(authzen.url);
  const sideband = sidebandOf(ping.url);
  const cached = authZenOf(keeping.url);
  await handlerOf(asking)(exchange);
  await handlerOf(sideband)(exchange);
  await cached.evaluateRequest(InspectedMessage.of(exchange), call);
  const question = authzen.requests.at(-1)?.text ?? "";
  const [before, after] = ping.requests.map(({ text }) => text);
  const header = { [secret.header]: secret.value };
  const bareAuthZen = bare([[`${authzen.url}/access/v1/evaluation`, question, {}]]);
  const bareSideband = bare([
    [`${ping.url}/sideband/request`, before ?? "", header],
    [`${ping.url}/sideband/response`, after ?? "", header],
  ]);

  const pass = (provider: PolicyProvider) => {
    const handle = handlerOf(provider);
    return async () => {
      for (let index = 0; index < count; index++) await handle(exchange);
    };
  };
  const costs = await measure([
    { name: "AuthZEN", run: pass(asking) },
    { name: "AuthZEN round trip", run: pass(bareAuthZen) },
    { name: "PingAuthorize", run: pass(sideband) },
    { name: "PingAuthorize round trips", run: pass(bareSideband) },
    {
      name: "cache",
      run: () => {
        for (let index = 0; index < looks; index++) void cached.evaluateRequest(InspectedMessage.of(exchange), call);
      },
    },
  ]);
  for (const provider of [asking, sideband, cached]) await provider.close?.();

  /** The median of the rounds, each compared with its neighbour. */
  const added = (name: string, trip: string): number => {
    const trips = costs.get(trip)?.wallMs ?? [];
    return median((costs.get(name)?.wallMs ?? []).map((wall, round) => (wall - (trips[round] ?? 0)) / count));
  };
  const trip = (name: string): string =>
    `beside ${(median(costs.get(name)?.wallMs ?? []) / count).toFixed(2)} ms for the bare round trip`;
  return [
    {
      name: "an AuthZEN decision, beside its round trip",
      value: added("AuthZEN", "AuthZEN round trip"),
      unit: "ms",
      threshold: { max: 0.3 },
      note: trip("AuthZEN round trip"),
    },
    {
      name: "PingAuthorize on request and answer, beside both round trips",
      value: added("PingAuthorize", "PingAuthorize round trips"),
      unit: "ms",
      threshold: { max: 0.6 },
      note: trip("PingAuthorize round trips"),
    },
    {
      name: "a decision that is kept",
      value: median(costs.get("cache")?.cpuMicros ?? []) / looks,
      unit: "µs",
      threshold: { max: 20 },
      note: "processor time, the question worked out each time",
    },
  ];
}

/** Enforcement with a provider and its deadline, as the gateway has it, in front of a server that answers at once. */
function handlerOf(provider: PolicyProvider): Handler {
  const answer = {
    message: messageOf({ id: 1, result: { content: [{ type: "text", text: "x".repeat(200) }] } }),
  };
  const enforcement = createEnforcement({
    provider: withDeadline(provider, { timeoutMs: 5000, setTimer: systemTimer }),
    mode: "enforce",
    refusals: { profile: "default", refusalStatus: "in-band" },
    newDecisionId: () => "decision",
    onDecision: (event) => {
      if (event.effect === "deny") throw new Error(`refused: ${event.refusal?.reason}`);
    },
  });
  const handle = enforcement(async () => answer);
  return async (exchange) => {
    const reply = await handle(exchange);
    if (reply.message?.kind !== "result") throw new Error("the message was refused");
    return reply;
  };
}

function authZenOf(url: string): PolicyProvider {
  const { authzen } = policyOf({ authzen: { url, declaredMappings: "ignore" } });
  if (authzen === undefined) throw new Error("no AuthZEN was configured");
  return createAuthZenProvider(authzen, { clock: systemClock, setTimer: systemTimer });
}

function sidebandOf(serviceUrl: string): PolicyProvider {
  const { pingAuthorize } = policyOf({
    pingAuthorize: { serviceUrl, sharedSecret: secret.value, secretHeaderName: secret.header },
  });
  if (pingAuthorize === undefined) throw new Error("no PingAuthorize was configured");
  return createSidebandProvider(pingAuthorize, { clock: systemClock, setTimer: systemTimer, log: () => {} });
}

function policyOf(policy: ConfigInput["policy"]) {
  const parsed = parseConfig({ upstream: { url: "http://127.0.0.1:1/mcp" }, policy });
  if (!parsed.ok) throw new Error(parsed.problems.map(({ message }) => message).join("; "));
  const [route] = Object.values(parsed.config.routes);
  if (route?.policy === undefined) throw new Error("no policy was configured");
  return route.policy;
}

/** A provider that sends the same bytes each time, waits for the whole answer, and allows. */
function bare(posts: readonly (readonly [string, string, Readonly<Record<string, string>>])[]): PolicyProvider {
  const agent = new Agent({ keepAlive: true });
  const [first, second] = posts;
  const allowed = { effect: "allow", explanation } as const;
  const post = async (facts: (typeof posts)[number] | undefined) => {
    if (facts === undefined) return allowed;
    const [url, body, headers] = facts;
    const { promise, resolve, reject } = Promise.withResolvers<void>();
    const length = String(Buffer.byteLength(body));
    const outgoing = request(url, {
      agent,
      method: "POST",
      headers: { "content-type": "application/json", "content-length": length, ...headers },
    });
    outgoing.on("error", reject);
    outgoing.on("response", (incoming) => {
      if (incoming.statusCode !== 200) reject(new Error(`status ${incoming.statusCode}`));
      incoming.on("data", () => {});
      incoming.on("end", () => resolve());
    });
    outgoing.end(body);
    await promise;
    return allowed;
  };
  return {
    name: "bare",
    evaluateRequest: () => post(first),
    evaluateResponse: () => (second === undefined ? allowed : post(second)),
  };
}

function callOf(): Message {
  const params = { name: "search", arguments: { query: "x".repeat(200), limit: 10 } };
  return messageOf({ id: 1, method: "tools/call", params });
}
