import type { PhaseLog, ShowForLog } from "./log.ts";
import { isJsonRecord, type McpSummary, parseJson } from "./payload.ts";
import type { Instruments } from "./metrics.ts";
import type { QueryOutcome, QuerySideband } from "./pdp-call.ts";
import {
  formatRefusalAnswer,
  type JsonRpcForm,
  rateLimited,
  type RefusalAnswer,
  type RefusalFacts,
  rejected,
  unavailable,
} from "./refusal-answer.ts";
import type { SidebandSettings } from "./settings.ts";
import type { PdpReply } from "../pdp/client.ts";
import type { HeaderMap } from "./http-format.ts";
import { messageInBody } from "./pdp-answer.ts";
import { responseStatusText } from "./response-payload.ts";

/** What a phase is made of. */
export interface PhaseDeps {
  readonly settings: SidebandSettings;
  readonly query: QuerySideband;
  readonly log: PhaseLog;
  readonly instruments: Instruments;
  readonly show: ShowForLog;
  readonly knownMethods: ReadonlySet<string>;
  /** Members that answers lack and that was warned of already. */
  readonly warnedOf: Set<string>;
}

/** The JSON-RPC form, where the settings want it and the request is MCP (PA-176). */
export function jsonRpcForm(
  settings: SidebandSettings,
  mcp: Pick<McpSummary, "id"> | undefined,
): JsonRpcForm | undefined {
  return settings.enable_mcp && settings.mcp_jsonrpc_errors && mcp !== undefined ? { id: mcp.id } : undefined;
}

/** Writes a refusal in its form, and counts it. */
export function countedRefusal(parts: PhaseDeps, facts: RefusalFacts, mcp: McpSummary | undefined): RefusalAnswer {
  if (mcp !== undefined) parts.instruments.mcpDenied(mcp, facts.reason);
  return formatRefusalAnswer(facts, jsonRpcForm(parts.settings, mcp));
}

/** Says what is about to be sent: always that, and with debug logging what (PA-134, PA-215). */
export function logQuery(parts: PhaseDeps, path: string, text: string): void {
  const { settings, log, show } = parts;
  log("debug", path.endsWith("request") ? "Sending sideband request" : "Sending sideband response", {
    path,
    ...(settings.enable_debug_logging ? { payload: show(text) } : {}),
  });
}

/** Shows an answer that came, with debug logging only. */
export function logAnswer({ settings, log, show }: PhaseDeps, body: Buffer): void {
  if (settings.enable_debug_logging) log("debug", "Sideband answer", { answer: show(body.toString("utf8")) });
}

/** Warns of members that an answer lacks, of each once: a decision point that leaves one out does so always (PA-074). */
export function warnAboutMissing({ log, warnedOf }: PhaseDeps, missing: readonly string[]): void {
  for (const name of missing) {
    if (warnedOf.has(name)) continue;
    warnedOf.add(name);
    log("warn", "Policy answer", { warning: `the answer has no ${name}: taken as unchanged` });
  }
}

/** What follows from how a question ended, before any answer is looked at (PA-065). */
export type ClassifiedOutcome<Answer> =
  | { readonly kind: "answer"; readonly answer: Answer }
  /** The client gets this, whatever `fail_open` says. */
  | { readonly kind: "refuse"; readonly facts: RefusalFacts }
  /** Nobody could be asked: `fail_open` decides. */
  | { readonly kind: "unavailable"; readonly cause: string };

/** Judges by the status alone; an answer is read only when it is a decision (PA-066). Logs what went wrong. */
export function classifyOutcome<Answer>(
  outcome: QueryOutcome<Answer>,
  settings: SidebandSettings,
  log: PhaseLog,
): ClassifiedOutcome<Answer> {
  switch (outcome.kind) {
    case "answer":
      return { kind: "answer", answer: outcome.answer };
    case "failed":
      log("error", "PingAuthorize unreachable", { error: outcome.error });
      return { kind: "unavailable", cause: "unreachable" };
    case "open":
      log("warn", "Circuit breaker open", {
        trigger: outcome.open.kind,
        remaining_seconds: outcome.open.remainingSeconds,
      });
      // An open breaker after 429 stays 429, also with fail_open (PA-111).
      return outcome.open.kind === "rate"
        ? { kind: "refuse", facts: rateLimited(outcome.open.remainingSeconds) }
        : { kind: "unavailable", cause: "circuit breaker open" };
    case "reply": {
      logReply(outcome.reply, log);
      const { status } = outcome.reply;
      if (settings.passthrough_status_codes.includes(status)) {
        return { kind: "refuse", facts: passthroughRefusal(outcome.reply) };
      }
      if (outcome.tripped?.kind === "rate") {
        return { kind: "refuse", facts: rateLimited(outcome.tripped.remainingSeconds) };
      }
      return status >= 500 ? { kind: "unavailable", cause: `status ${status}` } : { kind: "refuse", facts: rejected };
    }
  }
}

/** PingAuthorize's refusals are warnings, its failures errors, with what it says about them (PA-129). */
function logReply({ status, body }: PdpReply, log: PhaseLog): void {
  const value = parseJson(body.toString("utf8"));
  const { message, id } = isJsonRecord(value) ? value : {};
  const fields = { status, message, id };
  if (status >= 500) log("error", "Sideband request failed", fields);
  else if (status >= 400) log("warn", "Sideband request denied", fields);
  else log("warn", "Sideband request answered with neither a decision nor an error", fields);
}

/** The decision point's own answer for the client (PA-127). */
function passthroughRefusal({ status, headers, body }: PdpReply): RefusalFacts {
  const text = body.toString("utf8");
  const isJson = parseJson(text) !== undefined;
  const contentType = isJson ? "application/json" : firstValue(headers["content-type"]);
  const kept: HeaderMap = new Map(
    [
      ["content-type", contentType] as const,
      // Of the others only this one is meant for whoever is refused.
      ["retry-after", firstValue(headers["retry-after"])] as const,
    ].flatMap(([name, value]) => (value === undefined ? [] : [[name, [value]] as const])),
  );
  const message = messageInBody(text) ?? (responseStatusText(status) || "Request refused.");
  return { reason: "passthrough", status, message, headers: kept, body: text };
}

function firstValue(value: string | readonly string[] | undefined): string | undefined {
  return typeof value === "string" ? value : value?.[0];
}

/** Whether the gate is open although nobody could be asked; says so in the log (PA-130). */
export function failsOpen(cause: string, settings: SidebandSettings, log: PhaseLog): boolean {
  if (settings.fail_open) log("warn", "No decision, fail-open is on: letting it through", { cause });
  return settings.fail_open;
}

/** The refusal when nobody could be asked and the gate is closed. */
export const unavailableRefusal: RefusalFacts = unavailable;
