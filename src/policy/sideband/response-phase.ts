import { bodyAfterPolicy, isEventStreamContentType } from "../../protocol/sse/final-response.ts";
import type { EngineCall, HttpResponseFacts, ResponseOutcome, StoredContext } from "./contract.ts";
import {
  classifyOutcome,
  countedRefusal,
  failsOpen,
  logAnswer,
  logQuery,
  type PhaseDeps,
  unavailableRefusal,
  warnAboutMissing,
} from "./phase-context.ts";
import { type HeaderMap, toHeadersOut, withoutConnectionHeaders } from "./http-format.ts";
import { fitPayload, type FittedPayload, type McpSummary } from "./payload.ts";
import { parseResponseResult, type PolicyResponse, type ResponseResult } from "./pdp-answer.ts";
import { invalidAnswer, policyRefusal, type RefusalFacts } from "./refusal-answer.ts";
import { type ComposedResponse, composeResponse, type ResponsePayload } from "./response-payload.ts";

/** Upstream headers that stay although the result does not name them (PA-093). */
const preservedHeaders: ReadonlySet<string> = new Set(["content-length", "date", "connection", "vary"]);

/** Makes the function that decides about responses: compose, ask, judge, and write the client's answer. */
export function createResponseEvaluation(
  parts: PhaseDeps,
): (facts: HttpResponseFacts, stored: StoredContext, call: EngineCall) => Promise<ResponseOutcome> {
  const { settings, log } = parts;

  function refuse(facts: RefusalFacts, upstream: Iterable<string>, mcp: McpSummary | undefined): ResponseOutcome {
    const { answer, refusal } = countedRefusal(parts, facts, mcp);
    const clearHeaders = headersToClear(upstream, new Set(Object.keys(answer.headers)));
    return { action: "answer", answer, refusal, clearHeaders, isOriginalBody: false };
  }

  function carryOut(
    result: ResponseResult,
    facts: HttpResponseFacts,
    payload: ResponsePayload,
    fitted: FittedPayload,
  ): ResponseOutcome {
    const upstream = payload.headers.keys();
    if (result.kind === "invalid") {
      log("error", "Sideband answer is not valid JSON of the expected form");
      return failsOpen("invalid answer", settings, log)
        ? { action: "pass", decision: "fail-open" }
        : refuse({ ...invalidAnswer, isUndecided: true }, upstream, payload.mcp);
    }
    if (result.kind === "unusable") {
      log("error", "Sideband answer has no usable response_code");
      return refuse(invalidAnswer, upstream, payload.mcp);
    }
    const decided = result.result;
    const isDenied = isRefusalStatus(decided.status, facts.status);
    if (isDenied) log("info", "Response denied by policy provider", { status_code: decided.status });
    // Such a denial is an error in JSON-RPC form; all others go out as the policy wrote them (PA-175).
    if (isDenied && payload.mcp !== undefined && settings.mcp_jsonrpc_errors) {
      return refuse(policyRefusal(decided), upstream, payload.mcp);
    }
    if (decided.headers === undefined) warnAboutMissing(parts, ["headers"]);
    const isEcho = decided.body === fitted.sentBody;
    if (fitted.isTruncated && !isEcho && !isDenied) {
      log("error", "A change that the policy asks for cannot be carried out", {
        problem: "the policy changed a body of which it saw only a part",
      });
      return refuse(invalidAnswer, upstream, payload.mcp);
    }
    const outcome = toClientAnswer(decided, facts, payload, fitted, isDenied);
    if (!isDenied) return outcome;
    const { reason, status, message } = policyRefusal(decided);
    if (payload.mcp !== undefined) parts.instruments.mcpDenied(payload.mcp, reason);
    return { ...outcome, refusal: { reason, status, message } };
  }

  return async (facts, stored, call) => {
    if (settings.skip_response_phase) return { action: "pass", decision: "skipped" };
    const composed = await compose(facts, stored, parts);
    if (!composed.ok) {
      log("error", "Response cannot be put to the policy", { problem: composed.problem });
      const { status } = composed;
      const refusal: RefusalFacts = {
        reason: status === 500 ? "internal" : "bad_request",
        status,
        message: "The response could not be authorized.",
      };
      return refuse(
        refusal,
        Object.keys(facts.headers).map((name) => name.toLowerCase()),
        undefined,
      );
    }
    const { payload } = composed;
    const { mcp } = payload;
    const fitted = fitPayload(payload, settings);
    if (fitted === undefined) {
      log("warn", "Payload over max_sideband_body_bytes");
      return refuse(tooLarge, payload.headers.keys(), mcp);
    }
    if (fitted.isTruncated) log("warn", "Body shortened to fit max_sideband_body_bytes");
    logQuery(parts, "/sideband/response", fitted.text);
    const outcome = await parts.query<ResponseResult>({
      phase: "response",
      body: Buffer.from(fitted.text),
      mcpMethod: mcp?.method,
      call,
      parse(body) {
        logAnswer(parts, body);
        const answer = parseResponseResult(body);
        if (answer.kind !== "result") return { answer, decision: "error" };
        return { answer, decision: isRefusalStatus(answer.result.status, facts.status) ? "deny" : "allow" };
      },
    });
    const judged = classifyOutcome(outcome, settings, log);
    switch (judged.kind) {
      case "refuse":
        return refuse(judged.facts, payload.headers.keys(), mcp);
      case "unavailable":
        return failsOpen(judged.cause, settings, log)
          ? { action: "pass", decision: "fail-open" }
          : refuse(unavailableRefusal, payload.headers.keys(), mcp);
      case "answer":
        return carryOut(judged.answer, facts, payload, fitted);
    }
  };
}

/** A result that is an error where the upstream's response was another one or none (PA-175). */
function isRefusalStatus(status: number, upstreamStatus: number): boolean {
  return status >= 400 && status !== upstreamStatus;
}

/** The client's answer: the upstream's own bytes where the policy only repeated what it saw (PA-206, PA-207). */
function toClientAnswer(
  decided: PolicyResponse,
  facts: HttpResponseFacts,
  payload: ResponsePayload,
  fitted: FittedPayload,
  isDenied: boolean,
): Extract<ResponseOutcome, { action: "answer" }> {
  const wanted = decided.headers ?? payload.headers;
  const headers = new Map(withoutConnectionHeaders(wanted));
  const contentType = wanted.get("content-type")?.[0];
  const isPart = fitted.isTruncated && decided.body === fitted.sentBody;
  const after = isPart
    ? ({ body: facts.body, from: "upstream" } as const)
    : bodyAfterPolicy(
        payload.plainBody,
        { ...payload.seen, text: fitted.sentBody },
        { body: decided.body, contentType, denied: isDenied },
      );
  const isOriginalBody = after.from === "upstream";
  // What the policy was shown had no coding any more; only the upstream's own bytes have one.
  headers.delete("content-encoding");
  const coding = payload.headers.get("content-encoding");
  if (isOriginalBody && coding !== undefined) headers.set("content-encoding", coding);
  const upstreamType = payload.headers.get("content-type");
  if (isPart && payload.seen.extracted && !isEventStreamContentType(contentType) && upstreamType !== undefined) {
    headers.set("content-type", upstreamType);
  }
  return {
    action: "answer",
    answer: {
      status: decided.status,
      headers: toHeadersOut(headers),
      body: isOriginalBody ? facts.body : after.body,
    },
    clearHeaders: headersToClear(payload.headers.keys(), headers),
    isOriginalBody,
  };
}

function headersToClear(
  upstream: Iterable<string>,
  kept: { has(name: string): boolean } | HeaderMap,
): readonly string[] {
  return [...upstream].filter((name) => !kept.has(name) && !preservedHeaders.has(name));
}

/** A payload, or the status that refuses: what cannot be written as JSON is our own fault here (PA-053). */
async function compose(
  facts: HttpResponseFacts,
  stored: StoredContext,
  { settings }: PhaseDeps,
): Promise<ComposedResponse> {
  try {
    return await composeResponse(facts, stored, settings);
  } catch (error) {
    return { ok: false, status: 500, problem: `the payload cannot be written: ${String(error)}` };
  }
}

/** The upstream has acted already, so 413 would say the wrong thing (PA-204). */
const tooLarge: RefusalFacts = {
  reason: "too_large",
  status: 502,
  message: "The response is too large to be authorized.",
};
