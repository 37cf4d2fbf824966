import { errorTable } from "../errors.ts";
import { isObject } from "../lib/is-object.ts";
import { slotOf } from "../protocol/json/outline.ts";
import { memberBoolean, memberString, memberValue } from "../protocol/json/read.ts";
import type { Message } from "../protocol/message.ts";
import type { Reply } from "./pipeline.ts";

/** One row of the table of outcomes. */
interface OutcomeFacts {
  /** Whether the filter `status:err` finds it. */
  readonly isFailure: boolean;
  readonly meaning: string;
}

/** How a message ended, as named in the log, the metrics and the recording. */
export const outcomes = {
  open: { isFailure: false, meaning: "not answered yet" },
  ok: { isFailure: false, meaning: "answered with a result" },
  tool_error: { isFailure: true, meaning: "answered with a result that has `isError`: the tool failed" },
  input_required: { isFailure: false, meaning: "answered with a request for input; a retry continues the operation" },
  error: { isFailure: true, meaning: "answered by the other side with a JSON-RPC error" },
  refused: { isFailure: true, meaning: "refused by a policy, a limit or a check of the gateway" },
  failed: { isFailure: true, meaning: "an error of the gateway itself, or the upstream did not answer" },
  accepted: { isFailure: false, meaning: "a notification that was forwarded" },
  cancelled: { isFailure: false, meaning: "given up by its sender" },
  abandoned: { isFailure: true, meaning: "the gateway stopped first" },
  orphan: { isFailure: true, meaning: "a response that answers no open request" },
  invalid: { isFailure: true, meaning: "an event, line or body that holds no valid message" },
} as const satisfies Record<string, OutcomeFacts>;

/** One of the outcomes. */
export type Outcome = keyof typeof outcomes;

/** The outcomes that count as failures. */
export const failedOutcomes: readonly Outcome[] = (Object.keys(outcomes) as Outcome[]).filter(
  (outcome) => outcomes[outcome].isFailure,
);

/** Errors that are not the fault of the gateway or the upstream; those have the code -32603, or no answer. */
const refusals: ReadonlySet<string> = new Set(
  Object.entries(errorTable).flatMap(([code, { http, jsonrpc = http }]) =>
    jsonrpc === undefined || jsonrpc === -32603 ? [] : [code],
  ),
);

/** The outcome of a message that the gateway itself answered with an error. */
export function outcomeOfCode(code: string): Outcome {
  return code === "cancelled" ? "cancelled" : refusals.has(code) ? "refused" : "failed";
}

/** The outcome that a reply leaves. */
export function outcomeOfReply({ message, isRefusal, dropped }: Reply): Outcome {
  if (isRefusal === true) return "refused";
  if (dropped !== undefined) return outcomeOfCode(dropped);
  return message === undefined ? "accepted" : outcomeOfAnswer(message);
}

const isErrorSlot = slotOf("result.isError");
const resultTypeSlot = slotOf("result.resultType");

/** The outcome that an answer stands for. */
function outcomeOfAnswer(answer: Message): Outcome {
  if (answer.kind === "error") {
    const code = gatewayCodeOf(answer);
    return code === undefined ? "error" : outcomeOfCode(code);
  }
  const { spans } = answer.outline;
  if ((spans[isErrorSlot] ?? -1) >= 0 && memberBoolean(answer, "result.isError") === true) return "tool_error";
  const asks = (spans[resultTypeSlot] ?? -1) >= 0 && memberString(answer, "result.resultType") === "input_required";
  return asks ? "input_required" : "ok";
}

/** The code of an error from the gateway itself; undefined for errors from the other side. */
export function gatewayCodeOf(answer: Message): string | undefined {
  const data = memberValue(answer, "error.data");
  if (!isObject(data) || data["origin"] !== "gateway") return undefined;
  const { code } = data;
  return typeof code === "string" ? code : undefined;
}
