import { systemClock, systemTimer } from "../../src/core/exchange.ts";
import type {
  HttpPolicyEngine,
  HttpRequestFacts,
  HttpResponseFacts,
  RequestOutcome,
  ResponseOutcome,
  SidebandEngineDeps,
  SidebandLogEntry,
  StoredContext,
} from "../../src/policy/sideband/contract.ts";
import { createSidebandEngine } from "../../src/policy/sideband/engine.ts";
import { createSidebandRegistry, type EndedSpan, type SidebandRegistry } from "./sideband-registry.ts";
import { parseSidebandSettings } from "../../src/policy/sideband/settings.ts";
import {
  type MockPingAuthorize,
  type MockPingAuthorizeOptions,
  startMockPingAuthorize,
} from "../../src/policy/testing/mock-ping-authorize.ts";

export * from "../../src/policy/testing/mock-ping-authorize.ts";

/** The least settings there are, with a secret that a mock can check. */
export const plainSettings = {
  service_url: "http://pdp.example",
  shared_secret: "s3cret-value",
  secret_header_name: "CLIENT-TOKEN",
} as const;

/** A request as a client might send it; what a test cares about is given. */
export function requestFacts(facts: Partial<HttpRequestFacts> = {}): HttpRequestFacts {
  return {
    clientAddress: "192.0.2.7",
    clientPort: 54_321,
    method: "POST",
    scheme: "https",
    host: "api.example.com",
    port: 443,
    path: "/mcp",
    headers: { host: ["api.example.com"], "content-type": ["application/json"] },
    body: Buffer.alloc(0),
    httpVersion: 1.1,
    ...facts,
  };
}

/** A response as an upstream might send it. */
export function responseFacts(facts: Partial<HttpResponseFacts> = {}): HttpResponseFacts {
  return {
    status: 200,
    headers: { "content-type": ["application/json"], date: ["Sun, 15 Nov 2026 00:00:00 GMT"] },
    body: Buffer.from('{"ok":true}'),
    ...facts,
  };
}

/** What the request phase of an ordinary request left. */
export const plainContext: StoredContext = {
  paz_original_request: JSON.stringify({
    method: "POST",
    url: "https://api.example.com:443/mcp",
    body: "",
    headers: [],
    http_version: "1.1",
  }),
};

/** An engine in front of a mock that listens on this machine. */
export interface MockedEngine extends AsyncDisposable {
  readonly engine: HttpPolicyEngine;
  readonly mock: MockPingAuthorize;
  readonly logs: readonly SidebandLogEntry[];
  readonly spans: readonly EndedSpan[];
  readonly metrics: SidebandRegistry;
}

/** Starts a mock and an engine that asks it. */
export async function startMockedEngine(
  settings: Readonly<Record<string, unknown>> = {},
  options: {
    readonly mock?: MockPingAuthorizeOptions;
    readonly surroundings?: Partial<SidebandEngineDeps>;
  } = {},
): Promise<MockedEngine> {
  const secret = { header: plainSettings.secret_header_name, value: plainSettings.shared_secret };
  const mock = await startMockPingAuthorize({ secret, ...options.mock });
  const logs: SidebandLogEntry[] = [];
  const spans: EndedSpan[] = [];
  const metrics = createSidebandRegistry((span) => void spans.push(span));
  const parsed = parseSidebandSettings({ ...plainSettings, service_url: mock.url, ...settings });
  const engine = createSidebandEngine(parsed, {
    clock: systemClock,
    setTimer: systemTimer,
    log: (entry) => void logs.push(entry),
    telemetry: metrics,
    ...options.surroundings,
  });
  return {
    engine,
    mock,
    logs,
    spans,
    metrics,
    [Symbol.asyncDispose]: async () => {
      engine.close();
      await mock.close();
    },
  };
}

/** The outcome of a request that is let through; fails the test otherwise. */
export function continued(outcome: RequestOutcome): Extract<RequestOutcome, { action: "continue" }> {
  if (outcome.action === "continue") return outcome;
  throw new Error(`answered with ${outcome.answer.status}: ${outcome.refusal.message}`);
}

/** The answer that a client gets; fails the test when there is none. */
export function answered<Outcome extends RequestOutcome | ResponseOutcome>(
  outcome: Outcome,
): Extract<Outcome, { action: "answer" }> {
  // The check is on the member that tells the two apart; TypeScript does not narrow type parameters by it.
  if (outcome.action === "answer") return outcome as Extract<Outcome, { action: "answer" }>;
  throw new Error(`no answer but ${outcome.action}`);
}

/** The JSON body of an answer. */
export function jsonOf({ answer }: { readonly answer: { readonly body: Buffer } }): unknown {
  return JSON.parse(answer.body.toString("utf8"));
}
