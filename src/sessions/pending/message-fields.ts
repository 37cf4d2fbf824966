import { createHash } from "node:crypto";
import { type Message, readId, type RequestId } from "../../protocol/message.ts";
import { slotOf } from "../../protocol/json/outline.ts";
import { memberBoolean, memberString, memberType, memberValue } from "../../protocol/json/read.ts";
import type { NameSource } from "../../protocol/methods.ts";
import { type Revision, revisions } from "../../protocol/revisions.ts";
import type { FinalState } from "./states.ts";

// Slots are looked up once: these members are asked for with every message.
const tokenSlot = slotOf("params._meta.progressToken");
const requestIdSlot = slotOf("params.requestId");
const progressTokenSlot = slotOf("params.progressToken");
const subscriptionSlot = slotOf("params._meta.io.modelcontextprotocol/subscriptionId");
const inputResponsesSlot = slotOf("params.inputResponses");
const requestStateSlot = slotOf("params.requestState");
const taskSlot = slotOf("params.task");
const resultTypeSlot = slotOf("result.resultType");
const isErrorSlot = slotOf("result.isError");

/** The token under which a request wants to hear of its progress. */
export function progressTokenOf(request: Message): RequestId | undefined {
  return idAt(request, tokenSlot);
}

/** Whether a request asks for a task instead of an answer (MCP 2025-11-25, Tasks). */
export function wantsTask(request: Message): boolean {
  return (request.outline.spans[taskSlot] ?? -1) >= 0;
}

/** The request that a `notifications/cancelled` names. */
export function cancelTargetOf(notification: Message): RequestId | undefined {
  return idAt(notification, requestIdSlot);
}

/** The subscription that a notification belongs to. */
export function subscriptionOf(notification: Message): RequestId | undefined {
  return idAt(notification, subscriptionSlot);
}

/** What a `notifications/progress` reports; undefined without a usable token or a number. */
export function progressOf(notification: Message): { token: RequestId; value: number } | undefined {
  const token = idAt(notification, progressTokenSlot);
  const value = memberValue(notification, "params.progress");
  return token === undefined || typeof value !== "number" ? undefined : { token, value };
}

/** The state in which an answer leaves its exchange. */
export function outcomeOf(answer: Message, revision: Revision): FinalState {
  if (answer.kind === "error") return "error";
  const { spans } = answer.outline;
  // In revisions without multi round-trip requests the member is one nobody knows.
  const asks =
    (spans[resultTypeSlot] ?? -1) >= 0 &&
    revisions[revision].inputRequired &&
    memberString(answer, "result.resultType") === "input_required";
  if (asks) return "input_required";
  const isError = (spans[isErrorSlot] ?? -1) >= 0 && memberBoolean(answer, "result.isError") === true;
  return isError ? "tool_error" : "ok";
}

/** What is longer is cut or kept as its digest, so that no entry grows with what a client sends. */
const longName = 512;

/** A method name short enough to keep; known ones all are. */
export function shortMethod(method: string): string {
  // Copied, because a slice would keep the whole text alive.
  return method.length <= longName ? method : `${Buffer.from(method.slice(0, longName)).toString()}…`;
}

/** What a request is about, in a form short enough to keep; undefined where it says nothing usable. */
export function targetOf(request: Message, source: NameSource): string | undefined {
  const name = memberString(request, source);
  return name === undefined ? undefined : shortName(name);
}

/** A name short enough to keep, still different for different names. */
export function shortName(name: string): string {
  return name.length <= longName ? name : digest(name);
}

/** A hash that nobody can find two texts for. */
export function digest(text: string): string {
  return createHash("sha256").update(text).digest("base64");
}

/** What one round of a multi round-trip request asks for or brings: which inputs, and which state (SC-056). */
export interface InputRound {
  readonly keys: readonly string[];
  readonly state: string | undefined;
}

/** What an `input_required` result asks for; undefined if it is malformed. */
export function requestedInputs(result: Message): InputRound | undefined {
  return roundIn(result, "result.inputRequests", "result.requestState");
}

/** Whether a request says that it repeats an earlier one. */
export function isRetry(request: Message): boolean {
  const { spans } = request.outline;
  return (spans[inputResponsesSlot] ?? -1) >= 0 || (spans[requestStateSlot] ?? -1) >= 0;
}

/** What a retry brings; undefined if it is malformed. */
export function providedInputs(request: Message): InputRound | undefined {
  return roundIn(request, "params.inputResponses", "params.requestState");
}

function roundIn(
  message: Message,
  inputs: "result.inputRequests" | "params.inputResponses",
  state: "result.requestState" | "params.requestState",
): InputRound | undefined {
  const inputsType = memberType(message, inputs);
  const stateType = memberType(message, state);
  if (inputsType !== undefined && inputsType !== "object") return undefined;
  if (stateType !== undefined && stateType !== "string") return undefined;
  const value = memberValue(message, inputs);
  const keys = typeof value === "object" && value !== null ? Object.keys(value).toSorted() : [];
  return { keys, state: memberString(message, state) };
}

function idAt(message: Message, slot: number): RequestId | undefined {
  const { spans } = message.outline;
  const start = spans[slot] ?? -1;
  if (start < 0) return undefined;
  const reading = readId(message.bytes, start, spans[slot + 1] ?? -1);
  return reading.ok && !reading.fractional ? reading.id : undefined;
}
