import { isPromise } from "../../lib/is-promise.ts";
import type { Cancellation } from "../../core/cancellation.ts";
import type { Exchange, SetTimer } from "../../core/exchange.ts";
import type { Reply } from "../../core/pipeline.ts";
import { GatewayError } from "../../errors.ts";
import { memberInteger, memberSource, memberString, memberType } from "../../protocol/json/read.ts";
import type { ResultMessage } from "../../protocol/message.ts";
import { methodFacts } from "../../protocol/methods.ts";
import { delayUnlessCancelled, untilCancelled } from "../until-cancelled.ts";
import { type InputRequester, parseInputRequests } from "./input-requests.ts";
import { type ClientRequest, toFailureReply, toLegacyError, toLegacyResult } from "./legacy-result.ts";
import type { RetryInput } from "./modern-request.ts";
import type { ToolCache, ToolFacts } from "./tool-cache.ts";

/** A request of the client while it runs; it may take several requests upstream. */
export interface ClientCall extends ClientRequest {
  /** Ends the call, upstream and at the client. */
  readonly cancellation: Cancellation;
  /** Its current request upstream. */
  upstream?: Exchange;
}

/** Bounds of one call. */
export interface RoundTripLimits {
  /** How often the server may ask for input before the call fails. */
  readonly maxRounds: number;
  /** How many input requests one round may have. */
  readonly maxInputRequests: number;
  /** How long to wait before calling a server again that asked for nothing else. */
  readonly paceMs: number;
}

export interface ClientCallDeps {
  readonly limits: RoundTripLimits;
  readonly setTimer: SetTimer;
  readonly inputRequester: InputRequester;
  readonly tools: ToolCache;
  /** Sends the request in its modern form, with the headers that the tool requires. */
  readonly send: (call: ClientCall, input: RetryInput | undefined, tool: ToolFacts | undefined) => Promise<Reply>;
}

/**
 * Runs a legacy request to its answer: asks the client for the input that the server wants, and repeats the request
 * with it until the result is complete (MCP 2026-07-28, Multi Round-Trip Requests).
 */
export async function runCall(call: ClientCall, deps: ClientCallDeps): Promise<Reply> {
  const { limits, tools } = deps;
  const name = call.message.method === "tools/call" ? memberString(call.message, "params.name") : undefined;
  const found = name === undefined ? undefined : tools.find(name);
  let tool = isPromise(found) ? await untilCancelled(call.cancellation, found) : found;
  let input: RetryInput | undefined;
  let hasRefreshedTools = false;
  for (let round = 0; ;) {
    const { message: answer } = await deps.send(call, input, tool);
    if (answer?.kind === "error") {
      if (name === undefined || hasRefreshedTools || memberInteger(answer, "error.code") !== -32020) {
        return toLegacyError(answer, call);
      }
      // Header mismatch: the tool's schema has changed. Nothing was executed, so the request can be sent again.
      hasRefreshedTools = true;
      await untilCancelled(call.cancellation, tools.refresh());
      tool = await tools.find(name);
      continue;
    }
    if (answer?.kind !== "result") {
      throw new GatewayError("upstream_invalid", "the upstream's answer is not a response to the request");
    }
    const type = resultTypeOf(answer);
    if (type === "complete") {
      const page = call.message.method === "tools/list" ? tools.toLegacyPage(answer) : undefined;
      return { message: toLegacyResult(answer, call, { isWrapped: tool?.isWrapped === true, tools: page }) };
    }
    if (type !== "input_required" || methodFacts(call.message.method)?.inputRequired !== true) {
      throw new GatewayError("upstream_invalid", `the client's revision has no results of type ${type}`);
    }
    if (++round > limits.maxRounds) {
      const text = `the server asked for input more than ${limits.maxRounds} times`;
      return toFailureReply(call, new GatewayError("upstream_invalid", text));
    }
    const outcome = await collectInput(call, answer, deps);
    if (outcome instanceof GatewayError) return toFailureReply(call, outcome);
    input = outcome;
  }
}

/** Gets the client's answers to the input requests of one round, or why the call cannot go on. */
async function collectInput(
  { exchange, cancellation }: ClientCall,
  answer: ResultMessage,
  { limits, inputRequester, setTimer }: ClientCallDeps,
): Promise<RetryInput | GatewayError> {
  const requests = parseInputRequests(answer);
  const hasState = memberType(answer, "result.requestState") === "string";
  const requestState = hasState ? memberSource(answer, "result.requestState") : undefined;
  if (requests === undefined) return new GatewayError("upstream_invalid", "the server sent an invalid input request");
  if (requests.length > limits.maxInputRequests) {
    const text = `the server sent more than ${limits.maxInputRequests} input requests at once`;
    return new GatewayError("upstream_invalid", text);
  }
  if (requests.length > 0) {
    const outcome = await inputRequester.request(exchange, cancellation, requests);
    return outcome.ok ? { inputResponses: outcome.responses, requestState } : outcome.error;
  }
  if (requestState === undefined) {
    return new GatewayError("upstream_invalid", "the server asked for input without input requests or a state");
  }
  await delayUnlessCancelled(cancellation, limits.paceMs, setTimer);
  return { inputResponses: undefined, requestState };
}

/** A result without a type is complete. */
function resultTypeOf(answer: ResultMessage): string {
  const type = memberType(answer, "result.resultType");
  if (type === undefined) return "complete";
  return memberString(answer, "result.resultType") ?? type;
}
