import type { CallToolResult, InputRequiredResult, ServerContext } from "@modelcontextprotocol/server";

import type { Clock, Principal } from "../../core/exchange.ts";
import { type Failure, type FailureCode, readFailure } from "../entity/failure.ts";
import type { JsonObject } from "../stores/store.ts";
import type { ToolCatalog } from "./tool-catalog.ts";
import type { AccessDecision, KitCaller, ToolAccess, ToolEntry, ToolRefusal } from "./tool-entry.ts";
import type { KitSettings } from "../settings/settings.ts";

/** What happened in one call, for metrics and logs (KO-123). */
export interface CallEvent {
  readonly tool: string;
  readonly via: KitCaller["via"];
  readonly outcome: "ok" | "refused" | "cancelled" | "fault" | FailureCode;
  readonly durationMs: number;
}

/** How a call ended. */
export type ToolOutcome =
  | { readonly kind: "data"; readonly value: JsonObject }
  | { readonly kind: "result"; readonly result: CallToolResult | InputRequiredResult }
  | { readonly kind: "failed"; readonly failure: Failure }
  | { readonly kind: "refused"; readonly refusal: ToolRefusal }
  | { readonly kind: "unknown" }
  | { readonly kind: "cancelled" }
  /** A bug or a broken hook. The reason is only in the log, under this id (KO-141). */
  | { readonly kind: "fault"; readonly id: string };

/** Authorises and runs calls, for every transport and for REST (KO-021). */
export type Executor = ReturnType<typeof createExecutor>;

/** Creates an executor over a catalog that a reload may replace. */
export function createExecutor(catalog: () => ToolCatalog, clock: Clock, newId: () => string) {
  const listeners = new Set<(event: CallEvent) => void>();
  const running = new Set<Promise<ToolOutcome>>();
  return {
    /** The decision that `run` will make, for a transport that has to know it beforehand. */
    authorize: (name: string, caller: Requester): AccessDecision => {
      const entry = catalog().tools.get(name);
      return entry === undefined ? { kind: "unknown" } : authorizeTool(entry, caller, catalog().settings);
    },
    run: async (entry: ToolEntry, given: unknown, caller: KitCaller, context?: ServerContext): Promise<ToolOutcome> => {
      const started = clock.now();
      const call = attempt(entry, given, caller, context);
      running.add(call);
      const outcome = await call;
      running.delete(call);
      report(entry.name, caller, outcome, clock.now() - started);
      return outcome;
    },
    /** Calls the listener after each call; returns a function that removes it. */
    onCall: (listener: (event: CallEvent) => void): (() => void) => {
      listeners.add(listener);
      return () => listeners.delete(listener);
    },
    /** Resolves when no call is running. */
    idle: async (): Promise<void> => {
      while (running.size > 0) await Promise.all(running);
    },
  };

  /** Never rejects. */
  async function attempt(
    entry: ToolEntry,
    given: unknown,
    caller: KitCaller,
    context: ServerContext | undefined,
  ): Promise<ToolOutcome> {
    const decision = authorizeTool(entry, caller, catalog().settings);
    if (decision.kind !== "allowed") return decision;
    try {
      caller.signal.throwIfAborted();
      const output = await entry.run(given, { caller, context });
      if (output.kind === "result") return output;
      const problem = entry.checkOutput?.(output.value);
      return problem === undefined ? output : fault(entry, caller, `invalid output: ${problem}`);
    } catch (error) {
      const failure = readFailure(error);
      if (failure !== undefined) return failed(entry, caller, failure, error);
      if (caller.signal.aborted) return { kind: "cancelled" };
      return fault(entry, caller, error instanceof Error ? (error.stack ?? error.message) : String(error));
    }
  }

  function failed(entry: ToolEntry, { log }: KitCaller, failure: Failure, error: unknown): ToolOutcome {
    if (failure.code === "store_failed") {
      const cause = error instanceof Error ? error.cause : undefined;
      const reason = cause instanceof Error ? cause.message : undefined;
      log.error({ tool: entry.name, reason }, "store failed");
    }
    return { kind: "failed", failure };
  }

  function fault(entry: ToolEntry, { log }: KitCaller, reason: string): ToolOutcome {
    const id = newId();
    log.error({ tool: entry.name, fault: id, reason }, "tool call failed unexpectedly");
    return { kind: "fault", id };
  }

  function report(tool: string, { via, log }: KitCaller, outcome: ToolOutcome, durationMs: number): void {
    // Unknown names come from clients; each would create a new metric.
    if (outcome.kind === "unknown") return;
    const event: CallEvent = { tool, via, outcome: outcomeLabel(outcome), durationMs };
    log.debug({ tool, outcome: event.outcome, durationMs: Math.round(durationMs) }, "call");
    for (const listener of listeners) listener(event);
  }
}

function outcomeLabel(outcome: Exclude<ToolOutcome, { kind: "unknown" }>): CallEvent["outcome"] {
  switch (outcome.kind) {
    case "data":
      return "ok";
    case "result":
      return outcome.result["isError"] === true ? "tool_failed" : "ok";
    case "failed":
      return outcome.failure.code;
    case "refused":
    case "cancelled":
    case "fault":
      return outcome.kind;
  }
}

/** The facts about a caller that access decisions depend on. */
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
  return { id: "local", kind: "key", scopes: new Set(settings.stdioScopes ?? declared), claims: { local: true } };
}

/** The refusal of a caller that has to log in. */
export function refuseAnonymous(message: string): ToolRefusal {
  return { reason: "unauthorized", code: refusalCodes.unauthorized, message, requiredScopes: [] };
}

function refuseAccess(
  reason: ToolRefusal["reason"],
  message: string,
  requiredScopes: readonly string[],
): AccessDecision {
  return { kind: "refused", refusal: { reason, code: refusalCodes[reason], message, requiredScopes } };
}
