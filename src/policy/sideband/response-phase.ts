import { bodyAfterPolicy, isEventStreamContentType } from "../../protocol/sse/final-response.ts";
import type { EngineCall, HttpResponseFacts, ResponseOutcome, StoredContext } from "./contract.ts";
import { toHeadersOut, withoutConnectionHeaders } from "./http-format.ts";
import {
  type ComposedResponse,
  composeResponse,
  type FittedPayload,
  type McpSummary,
  type ResponsePayload,
} from "./payload.ts";
import { parseResponseResult, type PolicyResponse, type ResponseResult } from "./pdp-call.ts";
import { countedRefusal, evaluatePayload, type PhaseDeps, undecidedAnswer, warnAboutMissing } from "./phase-context.ts";
import { invalidAnswer, policyRefusal, type RefusalFacts } from "./refusal-answer.ts";
import type { SidebandSettings } from "./settings.ts";
import { callersTrace, startTrace } from "./telemetry.ts";

/** Upstream headers that stay even if the result does not name them (PA-093). */
const preservedHeaders: ReadonlySet<string> = new Set(["content-length", "date", "connection", "vary"]);

const failOpen: ResponseOutcome = { action: "pass", decision: "fail-open" };

/** Creates the response phase: compose the payload, query PingAuthorize, and write the client's answer. */
export function createResponseEvaluation(
  deps: PhaseDeps,
): (facts: HttpResponseFacts, stored: StoredContext, call: EngineCall) => Promise<ResponseOutcome> {
  const { settings, log } = deps;

  function refuse(facts: RefusalFacts, upstream: Iterable<string>, mcp: McpSummary | undefined): ResponseOutcome {
    const { answer, refusal } = countedRefusal(deps, facts, mcp);
    const clearHeaders = headersToClear(upstream, new Set(Object.keys(answer.headers)));
    return { action: "answer", answer, refusal, clearHeaders, isOriginalBody: false };
  }

  function carryOut(
    answer: ResponseResult,
    facts: HttpResponseFacts,
    payload: ResponsePayload,
    fitted: FittedPayload,
  ): ResponseOutcome {
    const { mcp } = payload;
    const upstream = payload.headers.keys();
    if (answer.kind === "invalid") {
      const outcome = undecidedAnswer(deps, fitted);
      return outcome.kind === "refuse" ? refuse(outcome.facts, upstream, mcp) : failOpen;
    }
    if (answer.kind === "unusable") {
      log("error", "Sideband answer has no usable response_code");
      return refuse(invalidAnswer, upstream, mcp);
    }
    const { result } = answer;
    const isDenied = isRefusalStatus(result.status, facts.status);
    if (isDenied) log("info", "Response denied by policy provider", { status_code: result.status });
    // Other denials go out as the policy wrote them (PA-175).
    if (isDenied && mcp !== undefined && settings.mcp_jsonrpc_errors)
      return refuse(policyRefusal(result), upstream, mcp);
    if (result.headers === undefined) warnAboutMissing(deps, ["headers"]);
    if (fitted.isTruncated && result.body !== fitted.sentBody && !isDenied) {
      log("error", "A change that the policy asks for cannot be carried out", {
        problem: "the policy changed a body that it saw only in part",
      });
      return refuse(invalidAnswer, upstream, mcp);
    }
    const outcome = toClientAnswer(result, facts, payload, fitted, isDenied);
    if (!isDenied) return outcome;
    const { reason, status, message } = policyRefusal(result);
    if (mcp !== undefined) deps.instruments.mcpDenied(mcp, reason);
    return { ...outcome, refusal: { reason, status, message } };
  }

  return async (facts, stored, call) => {
    if (settings.skip_response_phase) return { action: "pass", decision: "skipped" };
    const composed = await compose(facts, stored, settings);
    if (!composed.ok) {
      const { status, problem } = composed;
      log("error", "Response cannot be put to the policy", { problem });
      const reason = status === 500 ? "internal" : "bad_request";
      const upstream = Object.keys(facts.headers).map((name) => name.toLowerCase());
      return refuse({ reason, status, message: "The response could not be authorized." }, upstream, undefined);
    }
    const { payload } = composed;
    const traced =
      stored.paz_trace === undefined ? payload.requestHeaders : new Map([["traceparent", [stored.paz_trace]]]);
    const trace = startTrace(deps.instruments, "response", callersTrace(traced));
    const outcome = await evaluatePayload<ResponseResult>(deps, {
      phase: "response",
      payload,
      mcp: payload.mcp,
      call,
      trace,
      // The upstream has acted already, so not 413 (PA-204).
      tooLarge: { status: 502, message: "The response is too large to be authorized." },
      parse: (body) => {
        const answer = parseResponseResult(body);
        if (answer.kind !== "result") return { answer, decision: "error" };
        return { answer, decision: isRefusalStatus(answer.result.status, facts.status) ? "deny" : "allow" };
      },
    });
    switch (outcome.kind) {
      case "refuse":
        return refuse(outcome.facts, payload.headers.keys(), payload.mcp);
      case "fail-open":
        return failOpen;
      case "answer":
        return carryOut(outcome.answer, facts, payload, outcome.fitted);
    }
  };
}

/** An error status that is not the upstream's own (PA-175). */
function isRefusalStatus(status: number, upstreamStatus: number): boolean {
  return status >= 400 && status !== upstreamStatus;
}

/** The client's answer, with the upstream's own bytes if the policy only repeated what it saw (PA-206, PA-207). */
function toClientAnswer(
  result: PolicyResponse,
  facts: HttpResponseFacts,
  { headers: upstream, plainBody, seen, method }: ResponsePayload,
  fitted: FittedPayload,
  isDenied: boolean,
): Extract<ResponseOutcome, { action: "answer" }> {
  const wanted = result.headers ?? upstream;
  const headers = new Map(withoutConnectionHeaders(wanted));
  const contentType = wanted.get("content-type")?.[0];
  const isPart = fitted.isTruncated && result.body === fitted.sentBody;
  const after = isPart
    ? ({ body: facts.body, from: "upstream" } as const)
    : bodyAfterPolicy(
        plainBody,
        { ...seen, text: fitted.sentBody },
        { body: result.body, contentType, denied: isDenied },
      );
  const isOriginalBody = after.from === "upstream";
  // The policy saw the body without its coding; only the upstream's own bytes have one.
  headers.delete("content-encoding");
  const coding = upstream.get("content-encoding");
  if (isOriginalBody && coding !== undefined) headers.set("content-encoding", coding);
  // The body of an answer to HEAD is empty, so only the header tells its length (RFC 9110, section 9.3.2).
  const length = upstream.get("content-length");
  if (method === "HEAD" && isOriginalBody && length !== undefined) headers.set("content-length", length);
  const upstreamType = upstream.get("content-type");
  if (isPart && seen.extracted && !isEventStreamContentType(contentType) && upstreamType !== undefined)
    headers.set("content-type", upstreamType);
  return {
    action: "answer",
    answer: {
      status: result.status,
      headers: toHeadersOut(headers),
      body: isOriginalBody ? facts.body : after.body,
    },
    clearHeaders: headersToClear(upstream.keys(), headers),
    isOriginalBody,
  };
}

function headersToClear(upstream: Iterable<string>, kept: { has(name: string): boolean }): readonly string[] {
  return [...upstream].filter((name) => !kept.has(name) && !preservedHeaders.has(name));
}

/** A response that cannot be written as JSON is our own error (PA-053). */
async function compose(
  facts: HttpResponseFacts,
  stored: StoredContext,
  settings: SidebandSettings,
): Promise<ComposedResponse> {
  try {
    return await composeResponse(facts, stored, settings);
  } catch (error) {
    return { ok: false, status: 500, problem: `the payload cannot be written: ${String(error)}` };
  }
}
