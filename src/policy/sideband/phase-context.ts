import { isObject } from "../../lib/is-object.ts";
import type { PdpReply } from "../pdp/client.ts";
import type { EngineCall, EnginePhase } from "./contract.ts";
import type { Instruments, PhaseLog, QueryTrace, ShowForLog } from "./telemetry.ts";
import {
  fitPayload,
  type FittedPayload,
  type McpSummary,
  parseJson,
  type Payload,
  responseStatusText,
} from "./payload.ts";
import { messageInBody, type QueryOutcome, type QuerySideband, type SidebandQuery } from "./pdp-call.ts";
import {
  formatRefusalAnswer,
  invalidAnswer,
  type JsonRpcForm,
  rateLimited,
  type RefusalAnswer,
  type RefusalFacts,
  rejected,
  unavailable,
} from "./refusal-answer.ts";
import type { SidebandSettings } from "./settings.ts";

/** What both phases need. */
export interface PhaseDeps {
  readonly settings: SidebandSettings;
  readonly query: QuerySideband;
  readonly log: PhaseLog;
  readonly instruments: Instruments;
  readonly show: ShowForLog;
  readonly knownMethods: ReadonlySet<string>;
  /** Members missing in answers that were reported already. */
  readonly warnedOf: Set<string>;
}

/** The JSON-RPC form of refusals, if the settings ask for it and the request is MCP (PA-176). */
export function jsonRpcForm(
  settings: SidebandSettings,
  mcp: Pick<McpSummary, "id"> | undefined,
): JsonRpcForm | undefined {
  return settings.enable_mcp && settings.mcp_jsonrpc_errors && mcp !== undefined ? { id: mcp.id } : undefined;
}

/** Formats and counts a refusal. */
export function countedRefusal(deps: PhaseDeps, facts: RefusalFacts, mcp: McpSummary | undefined): RefusalAnswer {
  if (mcp !== undefined) deps.instruments.mcpDenied(mcp, facts.reason);
  return formatRefusalAnswer(facts, jsonRpcForm(deps.settings, mcp));
}

/** Warns about each missing member once: a decision point that leaves one out always does (PA-074). */
export function warnAboutMissing({ log, warnedOf }: PhaseDeps, missing: readonly string[]): void {
  for (const name of missing) {
    if (warnedOf.has(name)) continue;
    warnedOf.add(name);
    log("warn", "Policy answer", { warning: `the answer has no ${name}: taken as unchanged` });
  }
}

/** A payload to be evaluated. */
export interface PhaseEvaluation<Answer> {
  readonly phase: EnginePhase;
  readonly payload: Payload;
  readonly mcp: McpSummary | undefined;
  readonly call: EngineCall;
  readonly trace: QueryTrace;
  /** The refusal of a payload over the limit. */
  readonly tooLarge: Pick<RefusalFacts, "status" | "message">;
  readonly parse: SidebandQuery<Answer>["parse"];
}

/** How an evaluation ended. */
export type EvaluationOutcome<Answer> =
  | { readonly kind: "answer"; readonly answer: Answer; readonly fitted: FittedPayload }
  | { readonly kind: "refuse"; readonly facts: RefusalFacts }
  /** No decision, and `fail_open` is on. */
  | { readonly kind: "fail-open"; readonly fitted: FittedPayload };

/** Fits the payload, queries PingAuthorize, and classifies the outcome (PA-065, PA-066). */
export async function evaluatePayload<Answer>(
  deps: PhaseDeps,
  { phase, payload, mcp, call, trace, tooLarge, parse }: PhaseEvaluation<Answer>,
): Promise<EvaluationOutcome<Answer>> {
  const { settings, log, show, query } = deps;
  const fitted = fitPayload(payload, settings);
  if (fitted === undefined) {
    log("warn", "Payload over max_sideband_body_bytes");
    return { kind: "refuse", facts: { reason: "too_large", ...tooLarge } };
  }
  if (fitted.isTruncated) log("warn", "Body shortened to fit max_sideband_body_bytes");
  const endpoint = phase === "access" ? "request" : "response";
  // The payload itself only with debug logging (PA-134, PA-215).
  log("debug", `Sending sideband ${endpoint}`, {
    path: `/sideband/${endpoint}`,
    ...(settings.enable_debug_logging ? { payload: show(fitted.text) } : {}),
  });
  const outcome = await query({
    phase,
    body: Buffer.from(fitted.text),
    mcpMethod: mcp?.method,
    call,
    trace,
    parse: (body) => {
      if (settings.enable_debug_logging) log("debug", "Sideband answer", { answer: show(body.toString("utf8")) });
      return parse(body);
    },
  });
  if (outcome.kind === "answer") return { kind: "answer", answer: outcome.answer, fitted };
  const classified = classify(outcome, deps);
  return typeof classified === "string"
    ? undecided(deps, classified, unavailable, fitted)
    : { kind: "refuse", facts: classified };
}

/** Fails open if configured, else refuses (PA-130). */
export function undecided(
  { settings, log }: PhaseDeps,
  cause: string,
  facts: RefusalFacts,
  fitted: FittedPayload,
): Exclude<EvaluationOutcome<never>, { kind: "answer" }> {
  if (!settings.fail_open) return { kind: "refuse", facts };
  log("warn", "No decision, fail-open is on: letting it through", { cause });
  return { kind: "fail-open", fitted };
}

/** What to do about an answer that is not JSON of the expected form. */
export function undecidedAnswer(deps: PhaseDeps, fitted: FittedPayload): ReturnType<typeof undecided> {
  deps.log("error", "Sideband answer is not valid JSON of the expected form");
  return undecided(deps, "invalid answer", { ...invalidAnswer, isUndecided: true }, fitted);
}

/** A refusal, or the cause why there is no decision. Logs what went wrong. */
function classify(
  outcome: Exclude<QueryOutcome<unknown>, { kind: "answer" }>,
  { settings, log }: PhaseDeps,
): RefusalFacts | string {
  switch (outcome.kind) {
    case "failed":
      log("error", "PingAuthorize unreachable", { error: outcome.error });
      return "unreachable";
    case "open": {
      const { kind, remainingSeconds } = outcome.open;
      log("warn", "Circuit breaker open", { trigger: kind, remaining_seconds: remainingSeconds });
      // A breaker that opened after 429 answers 429, also with fail_open (PA-111).
      return kind === "rate" ? rateLimited(remainingSeconds) : "circuit breaker open";
    }
    case "reply": {
      const { reply, tripped } = outcome;
      logReply(reply, log);
      if (settings.passthrough_status_codes.includes(reply.status)) return passthroughRefusal(reply);
      if (tripped?.kind === "rate") return rateLimited(tripped.remainingSeconds);
      return reply.status >= 500 ? `status ${reply.status}` : rejected;
    }
  }
}

/** Rejections of PingAuthorize are warnings, its failures are errors (PA-129). */
function logReply({ status, body }: PdpReply, log: PhaseLog): void {
  const value = parseJson(body.toString("utf8"));
  const { message, id } = isObject(value) ? value : {};
  const fields = { status, message, id };
  if (status >= 500) log("error", "Sideband request failed", fields);
  else if (status >= 400) log("warn", "Sideband request denied", fields);
  else log("warn", "Sideband request answered with neither a decision nor an error", fields);
}

/** PingAuthorize's own answer for the client; of its headers only `Retry-After` is meant for it (PA-127). */
function passthroughRefusal({ status, headers, body }: PdpReply): RefusalFacts {
  const text = body.toString("utf8");
  const contentType = parseJson(text) === undefined ? headers["content-type"] : "application/json";
  const kept = Object.entries({ "content-type": contentType, "retry-after": headers["retry-after"] }).flatMap(
    ([name, value]) => {
      const first = typeof value === "string" ? value : value?.[0];
      return first === undefined ? [] : [[name, [first]] as const];
    },
  );
  const message = messageInBody(text) ?? (responseStatusText(status) || "Request refused.");
  return { reason: "passthrough", status, message, headers: new Map(kept), body: text };
}
