import { GatewayError } from "../../errors.ts";
import type { Cancellation } from "../../core/cancellation.ts";
import type { SetTimer } from "../../core/exchange.ts";
import type { Reply } from "../../core/pipeline.ts";
import { memberInteger, memberSource, memberString, memberType } from "../../protocol/json/read.ts";
import type { RequestMessage, ResultMessage } from "../../protocol/message.ts";
import { methodFacts } from "../../protocol/methods.ts";
import { cancelledError } from "../../transports/transport.ts";
import { type ClientRequest, toFailureReply, toLegacyError, toLegacyResult } from "./legacy-result.ts";
import type { RetryInput } from "./modern-request.ts";
import { type InputRequester, parseInputRequests } from "./input-requests.ts";
import type { ToolCache, ToolFacts } from "./tool-cache.ts";

/** A request of the client while it runs: it may take several requests upstream. */
export interface ClientCall extends ClientRequest {
  /** Ends whatever is going on for the call, upstream or at the client. */
  readonly cancellation: Cancellation;
}

/** How far a call may go. */
export interface RoundTripLimits {
  /** How often the server may ask for more before the call is given up. */
  readonly maxRounds: number;
  /** How many questions it may ask at once. */
  readonly maxInputRequests: number;
  /** How long a server is left alone that asks for nothing but to be called again. */
  readonly paceMs: number;
}

export interface ClientCallDeps {
  readonly limits: RoundTripLimits;
  readonly setTimer: SetTimer;
  readonly inputRequester: InputRequester;
  readonly tools: ToolCache;
  /** Sends the request in its modern form, with the headers that the tool wants. */
  readonly send: (call: ClientCall, input: RetryInput | undefined, tool: ToolFacts | undefined) => Promise<Reply>;
}

/**
 * Takes a legacy request to its answer: what the server asks for meanwhile is asked of the client, and the request
 * repeated with the answers until it is complete (MCP 2026-07-28, Multi Round-Trip Requests).
 */
export async function runCall(call: ClientCall, deps: ClientCallDeps): Promise<Reply> {
  const { limits, tools } = deps;
  const name = toolNameOf(call.message);
  const found = name === undefined ? undefined : tools.find(name);
  let tool = found instanceof Promise ? await unlessCancelled(call, found) : found;
  let input: RetryInput | undefined;
  let isReadAgain = false;
  for (let round = 0; ;) {
    const { message: answer } = await deps.send(call, input, tool);
    if (answer?.kind === "error") {
      if (name === undefined || isReadAgain || memberInteger(answer, "error.code") !== -32020) {
        return toLegacyError(answer, call);
      }
      // The tool's schema has changed: the request was refused before anything was done, so it can be sent again.
      isReadAgain = true;
      await unlessCancelled(call, tools.refresh());
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
      throw new GatewayError(
        "upstream_invalid",
        `the upstream answered with a result of type ${type}, which has no form in the client's revision`,
      );
    }
    if (++round > limits.maxRounds) {
      const text = `the server asked for input more than ${limits.maxRounds} times`;
      return toFailureReply(call, new GatewayError("upstream_invalid", text));
    }
    const outcome = await inputFor(call, answer, deps);
    if (outcome instanceof GatewayError) return toFailureReply(call, outcome);
    input = outcome;
  }
}

/** Gets the client's answers to the questions of a round, or why the call cannot go on. */
async function inputFor(
  call: ClientCall,
  answer: ResultMessage,
  { limits, inputRequester: questions, setTimer }: ClientCallDeps,
): Promise<RetryInput | GatewayError> {
  const asked = parseInputRequests(answer);
  const isStated = memberType(answer, "result.requestState") === "string";
  const requestState = isStated ? memberSource(answer, "result.requestState") : undefined;
  if (asked === undefined) {
    return new GatewayError("upstream_invalid", "the server asks for something that is no question to a client");
  }
  if (asked.length > limits.maxInputRequests) {
    return new GatewayError(
      "upstream_invalid",
      `the server asks more than ${limits.maxInputRequests} questions at once`,
    );
  }
  if (asked.length > 0) {
    const outcome = await questions.request(call, asked);
    return outcome.ok ? { inputResponses: outcome.responses, requestState } : outcome.error;
  }
  if (requestState === undefined) {
    return new GatewayError("upstream_invalid", "the server asks for input, but not for which");
  }
  await pause(call, limits.paceMs, setTimer);
  return { inputResponses: undefined, requestState };
}

function pause({ cancellation }: ClientCall, milliseconds: number, setTimer: SetTimer): Promise<void> {
  if (cancellation.reason !== undefined) return Promise.reject(cancelledError(cancellation.reason));
  return new Promise((resolve, reject) => {
    const stop = setTimer(milliseconds, () => {
      off();
      resolve();
    });
    const off = cancellation.onCancel((reason) => {
      stop();
      reject(cancelledError(reason));
    });
  });
}

/** Waits for something that others wait for too, until the call is cancelled. */
function unlessCancelled<Value>({ cancellation }: ClientCall, work: Promise<Value>): Promise<Value> {
  return new Promise((resolve, reject) => {
    const off = cancellation.onCancel((reason) => {
      reject(cancelledError(reason));
    });
    void work.then(resolve, reject).finally(off);
  });
}

/** Servers that leave the type out mean a complete result; what is no text at all is no type we know. */
function resultTypeOf(answer: ResultMessage): string {
  const type = memberType(answer, "result.resultType");
  if (type === undefined) return "complete";
  return memberString(answer, "result.resultType") ?? type;
}

function toolNameOf(message: RequestMessage): string | undefined {
  return message.method === "tools/call" ? memberString(message, "params.name") : undefined;
}
