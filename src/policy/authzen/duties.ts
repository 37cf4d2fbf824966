import type { Change } from "../../intercept/action.ts";
import { spanOf, type MemberName } from "../../protocol/json/outline.ts";
import { memberType } from "../../protocol/json/read.ts";
import { splice } from "../../protocol/json/splice.ts";
import type { Message } from "../../protocol/message.ts";
import { mirroredTexts } from "../cel/mirrored-texts.ts";
import { applyEdits, planEdits, type Edit } from "../json-edit.ts";

/** What a decision on a request left to be done with its answer. */
export interface ResultDuty {
  readonly resultEdits: readonly Edit[];
}

/** Whether something that was remembered is a duty; only this provider's own verdicts leave any for it. */
export function isResultDuty(memory: unknown): memory is ResultDuty {
  return typeof memory === "object" && memory !== null && "resultEdits" in memory;
}

/** The message with the edits made in one of its members; undefined where there is nothing to edit. */
export function editedMember(
  message: Message,
  member: Extract<MemberName, "params.arguments" | "result">,
  edits: readonly Edit[],
): Change | undefined {
  const span = spanOf(message.outline, member);
  if (edits.length === 0 || span === undefined || memberType(message, member) !== "object") return undefined;
  const plan = planEdits(edits);
  const outcome = applyEdits(message.bytes, span, plan);
  // Values are only taken out or replaced, and there is a place for that wherever there is a value.
  if (!outcome.ok) throw new TypeError(outcome.problem);
  const mirrored = member === "result" ? mirroredTexts(message.bytes, span, plan, outcome.replacements) : [];
  const replacements = [...outcome.replacements, ...mirrored];
  return replacements.length === 0
    ? undefined
    : { bytes: splice(message.bytes, message.outline, replacements) };
}
