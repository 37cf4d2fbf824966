import { type AccessPayload, composeAccess } from "./access-payload.ts";
import type { EngineCall, HttpRequestFacts, RequestOutcome, StoredContext } from "./contract.ts";
import { type FittedPayload, objectText } from "./payload.ts";
import { type AccessAnswer, parseAccessAnswer } from "./pdp-call.ts";
import {
  countedRefusal,
  evaluatePayload,
  jsonRpcForm,
  type PhaseDeps,
  undecidedAnswer,
  warnAboutMissing,
} from "./phase-context.ts";
import { formatRefusalAnswer, invalidAnswer, policyRefusal, type RefusalFacts } from "./refusal-answer.ts";
import { changesWithoutAnswer, requestChanges } from "./request-changes.ts";
import type { SidebandSettings } from "./settings.ts";
import { callersTrace, type QueryTrace, startTrace } from "./telemetry.ts";

/** Creates the access phase: compose the payload, query PingAuthorize, and list the changes to the request. */
export function createAccessEvaluation(
  deps: PhaseDeps,
): (facts: HttpRequestFacts, call: EngineCall) => Promise<RequestOutcome> {
  const { settings, log, instruments } = deps;

  function refuse(facts: RefusalFacts, payload: AccessPayload): RequestOutcome {
    return { action: "answer", ...countedRefusal(deps, facts, payload.mcp) };
  }

  function failOpen(payload: AccessPayload, fitted: FittedPayload, trace: QueryTrace): RequestOutcome {
    // Without a response phase a compressed response does no harm (PA-076).
    const strips = settings.strip_accept_encoding && !settings.skip_response_phase;
    return {
      action: "continue",
      decision: "fail-open",
      changes: changesWithoutAnswer(payload.headers, strips),
      store: storedContext(payload, fitted, trace, undefined),
    };
  }

  function storedContext(
    { method, url, httpVersion, mcp }: AccessPayload,
    fitted: FittedPayload,
    trace: QueryTrace,
    state: string | undefined,
  ): StoredContext | undefined {
    if (settings.skip_response_phase) return undefined;
    return {
      // With a state the request is not sent again, so this much of it suffices (PA-131).
      paz_original_request:
        state === undefined
          ? fitted.text
          : objectText({
              method: JSON.stringify(method),
              url: JSON.stringify(url),
              http_version: JSON.stringify(httpVersion),
              headers: trace.stored && JSON.stringify([{ traceparent: trace.stored }]),
            }),
      ...(state === undefined ? {} : { paz_state: state }),
      ...(mcp === undefined ? {} : { paz_mcp: mcp.stored }),
      ...(trace.span === undefined || trace.stored === undefined ? {} : { paz_trace: trace.stored }),
    };
  }

  function carryOut(
    answer: AccessAnswer,
    facts: HttpRequestFacts,
    payload: AccessPayload,
    fitted: FittedPayload,
    trace: QueryTrace,
  ): RequestOutcome {
    switch (answer.kind) {
      case "deny":
        log("info", "Request denied by policy provider", { status_code: answer.refusal.status });
        return refuse(policyRefusal(answer.refusal), payload);
      case "invalid": {
        const outcome = undecidedAnswer(deps, fitted);
        return outcome.kind === "refuse" ? refuse(outcome.facts, payload) : failOpen(payload, fitted, trace);
      }
      case "unusable":
        log("error", "Sideband answer holds a response that cannot be used");
        return refuse(invalidAnswer, payload);
      case "allow": {
        const { sentBody, isTruncated } = fitted;
        const list = requestChanges({ payload, sentBody, isTruncated, originalBody: facts.body }, answer.allowed, {
          stripAcceptEncoding: settings.strip_accept_encoding,
          knownMethods: deps.knownMethods,
        });
        if (!list.ok) {
          log("error", "A change that the policy asks for cannot be carried out", { problem: list.problem });
          return refuse(invalidAnswer, payload);
        }
        for (const warning of list.warnings) log("warn", "Policy answer", { warning });
        warnAboutMissing(deps, list.missing);
        const store = storedContext(payload, fitted, trace, answer.allowed.state);
        return { action: "continue", decision: "allow", changes: list.changes, store };
      }
    }
  }

  function logRequest({ mcp, omittedArguments }: AccessPayload): void {
    if (mcp !== undefined) {
      instruments.mcpRequest(mcp);
      const fields = { mcp_method: mcp.method, mcp_tool_name: mcp.toolName, traffic_type: "mcp" };
      if (settings.enable_debug_logging) log("info", "MCP request", fields);
    }
    if (omittedArguments > 0) log("warn", "Query arguments left out of the payload", { omitted: omittedArguments });
  }

  return async (facts, call) => {
    const composed = compose(facts, settings);
    if (!composed.ok) {
      const { problem, mcp } = composed;
      log("warn", "Request cannot be put to the policy", { problem });
      const refusal: RefusalFacts = { reason: "bad_request", status: 400, message: `Invalid request: ${problem}.` };
      return { action: "answer", ...formatRefusalAnswer(refusal, mcp && jsonRpcForm(settings, mcp)) };
    }
    const { payload } = composed;
    logRequest(payload);
    const trace = startTrace(instruments, "access", callersTrace(payload.headers));
    const outcome = await evaluatePayload<AccessAnswer>(deps, {
      phase: "access",
      payload,
      mcp: payload.mcp,
      call,
      trace,
      tooLarge: { status: 413, message: "The request is too large to be authorized." },
      parse: (body) => {
        const answer = parseAccessAnswer(body);
        const { kind } = answer;
        return { answer, decision: kind === "allow" || kind === "deny" ? kind : "error" };
      },
    });
    switch (outcome.kind) {
      case "refuse":
        return refuse(outcome.facts, payload);
      case "fail-open":
        return failOpen(payload, outcome.fitted, trace);
      case "answer":
        return carryOut(outcome.answer, facts, payload, outcome.fitted, trace);
    }
  };
}

/** A request that cannot be written as JSON is a bad request too (PA-053). */
function compose(facts: HttpRequestFacts, settings: SidebandSettings): ReturnType<typeof composeAccess> {
  try {
    return composeAccess(facts, settings);
  } catch (error) {
    return { ok: false, problem: `the payload cannot be written: ${String(error)}` };
  }
}
