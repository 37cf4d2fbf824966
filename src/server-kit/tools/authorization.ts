import type { Principal } from "../../core/exchange.ts";
import type { KitCaller, ToolRefusal, AccessDecision, ToolAccess, ToolEntry } from "./tool-entry.ts";
import type { KitSettings } from "../settings/settings.ts";

/** Who calls, as far as the decision depends on it. */
export type Requester = Pick<KitCaller, "principal" | "via">;

/** JSON-RPC codes of refusals, outside -32768..-32000 (KO-098). */
const refusalCodes = { unauthorized: 4010, insufficient_scope: 4031 } as const;

/** Decides whether a caller may call a tool; listing, calling and the capability document all ask this function. */
export function authorizeTool(entry: ToolEntry, caller: Requester, settings: KitSettings): AccessDecision {
  if (entry.entityAccess === undefined) return applyAccessRules(entry.access, caller, settings);
  const decisions = [...entry.entityAccess.values()].map((access) => applyAccessRules(access, caller, settings));
  return (
    decisions.find(({ kind }) => kind === "allowed") ??
    decisions.find(({ kind }) => kind === "refused") ?? { kind: "unknown" }
  );
}

/** The entities that a caller may use through a tool. */
export function accessibleEntities(entry: ToolEntry, caller: Requester, settings: KitSettings): readonly string[] {
  return [...(entry.entityAccess ?? [])]
    .filter(([, access]) => applyAccessRules(access, caller, settings).kind === "allowed")
    .map(([name]) => name);
}

/** Applies one set of access rules (KO-097, KO-139). */
function applyAccessRules(
  { requireAuthentication, requiredScopes, enabledTransports }: ToolAccess,
  { principal, via }: Requester,
  settings: Pick<KitSettings, "deployed" | "requireAuthentication">,
): AccessDecision {
  if (via !== "rest" && !enabledTransports.includes(via)) return { kind: "unknown" };
  if (principal.kind === "anonymous") {
    const isScoped = requiredScopes.length > 0;
    // In development without authentication, scopes only apply to callers that do log in (KO-139).
    const isLenient = !settings.deployed && !settings.requireAuthentication;
    if (!requireAuthentication && (!isScoped || isLenient)) return { kind: "allowed" };
    return refuseAccess("unauthorized", "log in to use this tool", requiredScopes);
  }
  const missing = requiredScopes.filter((scope) => !principal.scopes.has(scope));
  if (missing.length === 0) return { kind: "allowed" };
  return refuseAccess("insufficient_scope", `this tool needs the scope ${missing.join(" ")}`, requiredScopes);
}

/** The local user of stdio, with the configured scopes or all declared ones (KO-138). */
export function stdioPrincipal(settings: KitSettings, declared: readonly string[]): Principal {
  return {
    id: "local",
    kind: "key",
    scopes: new Set(settings.stdioScopes ?? declared),
    claims: { local: true },
  };
}

function refuseAccess(
  reason: ToolRefusal["reason"],
  message: string,
  requiredScopes: readonly string[],
): AccessDecision {
  return { kind: "refused", refusal: { reason, code: refusalCodes[reason], message, requiredScopes } };
}
