import * as z from "zod";

import type { Config, RouteConfig } from "../../config/config.ts";
import { createExchange } from "../../core/exchange.ts";
import { type Exchange, type Principal } from "../../core/exchange.ts";
import type { RuleTrace } from "../../policy/cel/decide.ts";
import { createCelProvider } from "../../policy/cel/provider.ts";
import type { PolicyCall, PolicyProvider } from "../../policy/provider/provider.ts";
import type { Message } from "../../protocol/message.ts";
import { parseMessage } from "../../protocol/parse.ts";
import { newestLegacy } from "../../protocol/revisions.ts";

/** A caller as people describe one. */
export const principalInput = z.strictObject({
  id: z.string().min(1).default("somebody"),
  kind: z.enum(["anonymous", "token", "key", "certificate"]).default("token"),
  scopes: z.array(z.string()).default([]),
  claims: z.record(z.string(), z.unknown()).default({}),
});

/** How a message is said to have come. */
export const requestInput = z.strictObject({
  path: z.string().default("/mcp"),
  headers: z.record(z.string().toLowerCase(), z.string()).default({}),
  peer: z.string().default("127.0.0.1"),
  time: z.iso.datetime().default("2026-01-01T12:00:00Z"),
});

/** What a question is asked about. */
export interface SampleContext {
  readonly route: string;
  readonly principal: Principal;
  readonly request: z.output<typeof requestInput>;
}

/** The caller that was described. */
export function toPrincipal({ scopes, ...facts }: z.output<typeof principalInput>): Principal {
  return { ...facts, scopes: new Set(scopes) };
}

/** The exchange in which a message would have come, over HTTP and in the newest legacy revision. */
export function toSampleExchange(message: Message, { route, principal, request }: SampleContext): Exchange {
  const { path, headers, peer, time } = request;
  return createExchange({
    id: "exchange",
    message,
    route,
    principal,
    revision: newestLegacy,
    session: { id: "session", upstreamId: undefined },
    transport: { type: "http", method: "POST", path, headers, peer },
    timing: { startedAt: 0, wallTime: Date.parse(time) },
  });
}

/** A message of some members, or why it is none. */
export function toMessage(
  members: Readonly<Record<string, unknown>>,
): { readonly ok: true; readonly message: Message } | { readonly ok: false; readonly problem: string } {
  const outcome = parseMessage({ jsonrpc: "2.0", ...members }, { revision: newestLegacy, mode: "enforce" });
  return outcome.ok ? outcome : { ok: false, problem: outcome.failure.message };
}

/** What goes with a question that nobody cancels. */
export const offlineCall: PolicyCall = { memory: undefined, signal: new AbortController().signal };

/** The route that was named, or the only one; otherwise what to say. */
export function chooseRoute(
  { routes }: Config,
  name: string | undefined,
): { readonly ok: true; readonly route: RouteConfig } | { readonly ok: false; readonly problem: string } {
  const all = Object.values(routes);
  const chosen = name === undefined ? (all.length === 1 ? all[0] : undefined) : routes[name];
  if (chosen !== undefined) return { ok: true, route: chosen };
  const names = all.map((route) => route.name).join(", ");
  const problem =
    name === undefined
      ? `the configuration has several routes; name one of ${names}`
      : `there is no route \`${name}\`; there are ${names}`;
  return { ok: false, problem };
}

/** The rules of a route, ready to be asked; time stands still for them. */
export function createRouteProvider(
  { name, policy }: RouteConfig,
  onStep?: (step: RuleTrace) => void,
): { readonly ok: true; readonly provider: PolicyProvider } | { readonly ok: false; readonly problem: string } {
  if (policy === undefined) return { ok: false, problem: `route \`${name}\` has no policy: everything is allowed` };
  const elsewhere = policy.pingAuthorize === undefined ? policy.authzen && "AuthZEN" : "PingAuthorize";
  if (elsewhere !== undefined) {
    return { ok: false, problem: `route \`${name}\` asks ${elsewhere}; only rules can be tried out here` };
  }
  const clock = { now: () => 0 };
  return {
    ok: true,
    provider: createCelProvider(policy, { clock, ...(onStep === undefined ? {} : { onStep }) }),
  };
}
