import * as z from "zod";

import { findByName, findPrincipal, type FoundPrincipal, principalFormsOf } from "../../auth/principal-forms.ts";
import { expandScopes } from "../../auth/token-principal.ts";
import type { Config, RouteConfig } from "../../config/config.ts";
import { describeForms } from "../../config/checks/policy.ts";
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

/** The named route, or the only one, whatever views it has. */
export function chooseRoute({ routes }: Config, name: string | undefined): RouteConfig {
  const all = Object.values(routes);
  const chosen = name === undefined ? all.find(({ prefixes }) => prefixes.includes("")) : routes[name];
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

/** The decision of a provider that decides synchronously, as rules do. */
export function decideAtOnce(provider: PolicyProvider, inspected: InspectedMessage): Decision {
  const decision =
    inspected.phase === "request"
      ? provider.evaluateRequest(inspected, offlineCall)
      : provider.evaluateResponse(inspected, offlineCall);
  if (isPromise(decision)) throw new GatewayError("internal", "the policy did not decide synchronously");
  return decision;
}

/** How a caller authenticated. */
export const principalKind = z.enum(["anonymous", "token", "key", "certificate"]);

/** A caller as written in a case or on the command line: by full id, by short name, or without either. */
export const principalInput = z
  .strictObject({
    id: z.string().min(1).optional(),
    name: z.string().min(1).optional(),
    kind: principalKind.optional(),
    scopes: z.array(z.string()).optional(),
    claims: z.record(z.string(), z.unknown()).default({}),
  })
  .refine(({ id, name }) => id === undefined || name === undefined, {
    error: "cannot have both `id` and `name`: the id contains the name",
  });

/** The caller that was meant, or why there can be no such caller. */
export interface SamplePrincipal {
  readonly principal: Principal;
  readonly warning: string | undefined;
}

const somebody = "somebody";

/**
 * The principal of a written caller, with the id, scopes and claims that it has at run time. What is written replaces the
 * scopes and is added to the claims. Throws if a short name can mean several callers.
 */
export function toSamplePrincipal(
  { id, name, kind, scopes, claims }: z.output<typeof principalInput>,
  route: RouteConfig,
  { auth }: Pick<Config, "auth">,
): SamplePrincipal {
  const forms = principalFormsOf(auth, route.auth);
  const byName = name === undefined ? [] : findByName(forms, name);
  if (byName.length > 1) {
    const ids = byName.map((one) => JSON.stringify(one.id)).join(" or ");
    throw new GatewayError("config_invalid", `the principal name \`${name}\` is ambiguous; write the id: ${ids}`);
  }
  const found: FoundPrincipal | undefined = id === undefined ? byName[0] : findPrincipal(forms, id);
  const granted = found?.form.granted(found.name);
  const written = id ?? name;
  return {
    principal: {
      id: found?.id ?? written ?? somebody,
      kind: kind ?? found?.form.kind ?? "token",
      scopes: scopes === undefined ? new Set(granted?.scopes) : expandScopes(scopes, auth.impliedScopes),
      claims: { ...granted?.claims, ...claims },
    },
    warning:
      found !== undefined || written === undefined
        ? undefined
        : `no caller of route \`${route.name}\` has the ${id === undefined ? "name" : "id"} \`${written}\`; ids there are ${describeForms(forms)}`,
  };
}
