import { type AccessPayload, composeAccess } from "./access-payload.ts";
import type { EngineCall, HttpRequestFacts, RequestOutcome, StoredContext } from "./contract.ts";
import {
  classifyOutcome,
  countedRefusal,
  failsOpen,
  jsonRpcForm,
  logAnswer,
  logQuery,
  type PhaseDeps,
  unavailableRefusal,
  warnAboutMissing,
} from "./phase-context.ts";
import { fitPayload, type FittedPayload, objectText } from "./payload.ts";
import { type AccessAnswer, parseAccessAnswer } from "./pdp-answer.ts";
import { formatRefusalAnswer, invalidAnswer, policyRefusal, type RefusalFacts } from "./refusal-answer.ts";
import { changesWithoutAnswer, requestChanges } from "./request-changes.ts";

/** Makes the function that decides about requests: compose, ask, judge, and list the changes. */
export function createAccessEvaluation(
  parts: PhaseDeps,
): (facts: HttpRequestFacts, call: EngineCall) => Promise<RequestOutcome> {
  const { settings, log, instruments } = parts;

  function refuse(facts: RefusalFacts, payload: AccessPayload): RequestOutcome {
    return { action: "answer", ...countedRefusal(parts, facts, payload.mcp) };
  }

  function proceedWithoutAnswer(payload: AccessPayload, fitted: FittedPayload): RequestOutcome {
    // Without a response phase nobody minds a compressed answer (PA-076).
    const strips = settings.strip_accept_encoding && !settings.skip_response_phase;
    return {
      action: "continue",
      decision: "fail-open",
      changes: changesWithoutAnswer(payload.headers, strips),
      store: storedContext(payload, fitted, undefined),
    };
  }

  /** Nobody decided: the configuration does. */
  function withoutDecision(
    cause: string,
    otherwise: RefusalFacts,
    payload: AccessPayload,
    fitted: FittedPayload,
  ): RequestOutcome {
    return failsOpen(cause, settings, log) ? proceedWithoutAnswer(payload, fitted) : refuse(otherwise, payload);
  }

  function storedContext(
    payload: AccessPayload,
    fitted: FittedPayload,
    state: string | undefined,
  ): StoredContext | undefined {
    if (settings.skip_response_phase) return undefined;
    const { method, url, httpVersion, mcp } = payload;
    const short: () => string = () =>
      objectText([
        ["method", JSON.stringify(method)],
        ["url", JSON.stringify(url)],
        ["http_version", JSON.stringify(httpVersion)],
      ]);
    return {
      // With a state the request itself is not sent again, and no more of it is needed (PA-131).
      paz_original_request: state === undefined ? fitted.text : short(),
      ...(state === undefined ? {} : { paz_state: state }),
      ...(mcp === undefined ? {} : { paz_mcp: mcp.stored }),
    };
  }

  function carryOut(
    answer: AccessAnswer,
    facts: HttpRequestFacts,
    payload: AccessPayload,
    fitted: FittedPayload,
  ): RequestOutcome {
    switch (answer.kind) {
      case "deny": {
        log("info", "Request denied by policy provider", { status_code: answer.refusal.status });
        return refuse(policyRefusal(answer.refusal), payload);
      }
      case "invalid":
        log("error", "Sideband answer is not valid JSON of the expected form");
        return withoutDecision("invalid answer", { ...invalidAnswer, isUndecided: true }, payload, fitted);
      case "unusable":
        log("error", "Sideband answer holds a response that cannot be used");
        return refuse(invalidAnswer, payload);
      case "allow": {
        const { sentBody, isTruncated } = fitted;
        const sent = { payload, sentBody, isTruncated, originalBody: facts.body };
        const list = requestChanges(sent, answer.allowed, {
          stripAcceptEncoding: settings.strip_accept_encoding,
          knownMethods: parts.knownMethods,
        });
        if (!list.ok) {
          log("error", "A change that the policy asks for cannot be carried out", { problem: list.problem });
          return refuse(invalidAnswer, payload);
        }
        for (const warning of list.warnings) log("warn", "Policy answer", { warning });
        warnAboutMissing(parts, list.missing);
        const store = storedContext(payload, fitted, answer.allowed.state);
        return { action: "continue", decision: "allow", changes: list.changes, store };
      }
    }
  }

  return async (facts, call) => {
    const composed = compose(facts, parts);
    if (!composed.ok) {
      log("warn", "Request cannot be put to the policy", { problem: composed.problem });
      const form = composed.mcp === undefined ? undefined : jsonRpcForm(settings, composed.mcp);
      return { action: "answer", ...formatRefusalAnswer(badRequest(composed.problem), form) };
    }
    const { payload } = composed;
    const { mcp } = payload;
    if (mcp !== undefined) {
      instruments.mcpRequest(mcp);
      if (settings.enable_debug_logging) {
        const fields = { mcp_method: mcp.method, mcp_tool_name: mcp.toolName, traffic_type: "mcp" };
        log("info", "MCP request", fields);
      }
    }
    if (payload.omittedArguments > 0) {
      log("warn", "Query arguments left out of the payload", { omitted: payload.omittedArguments });
    }
    const fitted = fitPayload(payload, settings);
    if (fitted === undefined) {
      log("warn", "Payload over max_sideband_body_bytes");
      return refuse(tooLarge, payload);
    }
    if (fitted.isTruncated) log("warn", "Body shortened to fit max_sideband_body_bytes");
    logQuery(parts, "/sideband/request", fitted.text);
    const outcome = await parts.query({
      phase: "access",
      body: Buffer.from(fitted.text),
      mcpMethod: mcp?.method,
      call,
      parse(body) {
        logAnswer(parts, body);
        const answer = parseAccessAnswer(body);
        const { kind } = answer;
        return { answer, decision: kind === "allow" || kind === "deny" ? kind : "error" };
      },
    });
    const judged = classifyOutcome(outcome, settings, log);
    switch (judged.kind) {
      case "refuse":
        return refuse(judged.facts, payload);
      case "unavailable":
        return withoutDecision(judged.cause, unavailableRefusal, payload, fitted);
      case "answer":
        return carryOut(judged.answer, facts, payload, fitted);
    }
  };
}

/** A payload, or why there is none: what cannot be written as JSON is a bad request too (PA-053). */
function compose(facts: HttpRequestFacts, { settings }: PhaseDeps): ReturnType<typeof composeAccess> {
  try {
    return composeAccess(facts, settings);
  } catch (error) {
    return { ok: false, problem: `the payload cannot be written: ${String(error)}` };
  }
}

function badRequest(problem: string): RefusalFacts {
  return { reason: "bad_request", status: 400, message: `Invalid request: ${problem}.` };
}

const tooLarge: RefusalFacts = {
  reason: "too_large",
  status: 413,
  message: "The request is too large to be authorized.",
};
