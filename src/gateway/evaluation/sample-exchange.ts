import * as z from "zod";

import type { Config, RouteConfig } from "../../config/config.ts";
import { createExchange, type Exchange, type Principal } from "../../core/exchange.ts";
import type { InspectedMessage } from "../../core/interceptors/inspected-message.ts";
import { GatewayError } from "../../errors.ts";
import { isPromise } from "../../lib/is-promise.ts";
import type { RuleTrace } from "../../policy/cel/decide.ts";
import { createCelProvider } from "../../policy/cel/provider.ts";
import type { Decision, PolicyCall, PolicyProvider } from "../../policy/provider/provider.ts";
import type { Message } from "../../protocol/message.ts";
import { parseMessage } from "../../protocol/parse.ts";
import { newestLegacy } from "../../protocol/revisions.ts";

/** The HTTP request of a sample message. */
export const requestInput = z.strictObject({
  path: z.string().default("/mcp"),
  headers: z.record(z.string().toLowerCase(), z.string()).default({}),
  peer: z.string().default("127.0.0.1"),
  time: z.iso.datetime().default("2026-01-01T12:00:00Z"),
});

/** The context of a sample message. */
export interface SampleContext {
  readonly route: string;
  readonly principal: Principal;
  readonly request: z.output<typeof requestInput>;
}

/** An exchange for a message, over HTTP and in the newest legacy revision. */
export function toSampleExchange(message: Message, { route, principal, request }: SampleContext): Exchange {
  const { path, headers, peer, time } = request;
  return createExchange({
    id: "exchange",
    message,
    route,
    principal,
    revision: newestLegacy,
    session: { id: "session", label: "session", upstreamId: undefined },
    transport: { type: "http", method: "POST", path, headers, peer },
    timing: { startedAt: 0, wallTime: Date.parse(time) },
  });
}

/** A message with the given members, or why they are not a message. */
export function toMessage(
  members: Readonly<Record<string, unknown>>,
): { readonly ok: true; readonly message: Message } | { readonly ok: false; readonly problem: string } {
  const outcome = parseMessage({ jsonrpc: "2.0", ...members }, { revision: newestLegacy, mode: "enforce" });
  return outcome.ok ? outcome : { ok: false, problem: outcome.failure.message };
}

/** A policy call that is never cancelled. */
export const offlineCall: PolicyCall = { memory: undefined, signal: new AbortController().signal };

/** The named route, or the only one. */
export function chooseRoute({ routes }: Config, name: string | undefined): RouteConfig {
  const all = Object.values(routes);
  const chosen = name === undefined ? (all.length === 1 ? all[0] : undefined) : routes[name];
  if (chosen !== undefined) return chosen;
  const names = all.map((route) => route.name).join(", ");
  const problem =
    name === undefined
      ? `the configuration has several routes; choose one of ${names}`
      : `unknown route \`${name}\`; expected one of ${names}`;
  throw new GatewayError("config_invalid", problem);
}

/** A provider for the rules of a route, with a clock that stands still. */
export function createRouteProvider({ name, policy }: RouteConfig, onStep?: (step: RuleTrace) => void): PolicyProvider {
  if (policy === undefined)
    throw new GatewayError("config_invalid", `route \`${name}\` has no policy: everything is allowed`);
  const remote = policy.pingAuthorize === undefined ? policy.authzen && "AuthZEN" : "PingAuthorize";
  if (remote !== undefined)
    throw new GatewayError("config_invalid", `route \`${name}\` uses ${remote}; only rules can be evaluated offline`);
  return createCelProvider(policy, { clock: { now: () => 0 }, ...(onStep === undefined ? {} : { onStep }) });
}

/** The decision of a provider that decides at once, as rules do. */
export function decideAtOnce(provider: PolicyProvider, inspected: InspectedMessage): Decision {
  const decision =
    inspected.phase === "request"
      ? provider.evaluateRequest(inspected, offlineCall)
      : provider.evaluateResponse(inspected, offlineCall);
  if (isPromise(decision)) throw new GatewayError("internal", "the policy did not decide at once");
  return decision;
}
