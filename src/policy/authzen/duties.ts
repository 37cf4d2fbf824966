import type { MessageChange } from "../../intercept/action.ts";
import { spanOf, type MemberName } from "../../protocol/json/outline.ts";
import { memberType } from "../../protocol/json/read.ts";
import { splice } from "../../protocol/json/splice.ts";
import type { Message } from "../../protocol/message.ts";
import { mirroredContentEdits } from "../cel/mirrored-texts.ts";
import { applyEdits, planEdits, type PointerEdit } from "../json-edit.ts";

/** What a decision on a request left to be done with its answer. */
export interface ResultObligation {
  readonly resultEdits: readonly PointerEdit[];
}

/** Whether something that was remembered is a duty; only this provider's own verdicts leave any for it. */
export function isResultObligation(memory: unknown): memory is ResultObligation {
  return typeof memory === "object" && memory !== null && "resultEdits" in memory;
}

/** The message with the edits made in one of its members; undefined where there is nothing to edit. */
export function editMember(
  message: Message,
  member: Extract<MemberName, "params.arguments" | "result">,
  edits: readonly PointerEdit[],
): MessageChange | undefined {
  const span = spanOf(message.outline, member);
  if (edits.length === 0 || span === undefined || memberType(message, member) !== "object") return undefined;
  const plan = planEdits(edits);
  const outcome = applyEdits(message.bytes, span, plan);
  // Values are only taken out or replaced, and there is a place for that wherever there is a value.
  if (!outcome.ok) throw new TypeError(outcome.problem);
  const mirrored =
    member === "result" ? mirroredContentEdits(message.bytes, span, plan, outcome.replacements) : [];
  const replacements = [...outcome.replacements, ...mirrored];
  return replacements.length === 0
    ? undefined
    : { bytes: splice(message.bytes, message.outline, replacements) };
}
