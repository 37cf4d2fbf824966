import type { Principal } from "../../core/exchange.ts";
import { applyEdits, planEdits, type PointerEdit } from "../../protocol/json/edit.ts";
import type { PolicyRefusal } from "../provider/provider.ts";
import type { AuthZenDecision } from "./evaluation-api.ts";
import type { MessageChange } from "../../core/interceptors/action.ts";
import { type MemberName, spanOf } from "../../protocol/json/outline.ts";
import { memberType } from "../../protocol/json/read.ts";
import { splice } from "../../protocol/json/edit.ts";
import type { Message } from "../../protocol/message.ts";
import { mirroredContentEdits } from "../cel/mirrored-content.ts";

/** What a decision point may ask us to do with its decision (AuthZEN Obligations profile, draft). */
export const understoodObligations: readonly string[] = ["step-up", "custom"];

/** What obligations come to: what is to be done, or why the decision cannot be honoured. */
export interface FulfilledObligations {
  /** Undefined where all of them can be fulfilled. */
  readonly refusal: PolicyRefusal | undefined;
  readonly argumentEdits: readonly PointerEdit[];
  readonly resultEdits: readonly PointerEdit[];
  readonly notes: readonly string[];
  /** Whether there was any obligation at all. */
  readonly hasAny: boolean;
}

interface Draft {
  refusal: PolicyRefusal | undefined;
  readonly argumentEdits: PointerEdit[];
  readonly resultEdits: PointerEdit[];
  readonly notes: string[];
}

const noObligations: FulfilledObligations = {
  refusal: undefined,
  argumentEdits: [],
  resultEdits: [],
  notes: [],
  hasAny: false,
};

/** Reads the obligations of some decisions. One that is not understood makes a no of them all. */
export function readObligations(decisions: readonly AuthZenDecision[], principal: Principal): FulfilledObligations {
  if (decisions.every(({ context }) => !Object.hasOwn(context, "obligations"))) return noObligations;
  const draft: Draft = { refusal: undefined, argumentEdits: [], resultEdits: [], notes: [] };
  for (const { context } of decisions) {
    const { obligations = [] } = context;
    if (!Array.isArray(obligations)) refuseObligation(draft, "the obligations are no list");
    else for (const obligation of obligations as readonly unknown[]) readObligation(draft, obligation, principal);
  }
  return { ...draft, hasAny: true };
}

function readObligation(draft: Draft, obligation: unknown, principal: Principal): void {
  const { type, id, properties } = Object(obligation) as Readonly<Record<string, unknown>>;
  const facts = Object(properties) as Readonly<Record<string, unknown>>;
  const shown = `${String(type)} (${String(id)})`;
  if (type === "step-up") stepUp(draft, facts, principal);
  else if (type !== "custom" || facts["vendor"] !== "headgate")
    refuseObligation(draft, `obligation ${shown} is not understood`);
  else if (!custom(draft, facts)) refuseObligation(draft, `obligation ${shown} is malformed`);
}

/** A login that is strong enough already fulfils it; whoever has none is told which one is needed. */
function stepUp(draft: Draft, facts: Readonly<Record<string, unknown>>, { claims }: Principal): void {
  const { acr_value: level, amr_values: methods = [] } = facts;
  if (typeof level !== "string" || !Array.isArray(methods)) {
    refuseObligation(draft, "obligation step-up is malformed");
    return;
  }
  const used: unknown = claims["amr"];
  const hasMethods = methods.every((method: unknown) => Array.isArray(used) && used.includes(method));
  if (claims["acr"] === level && hasMethods) {
    draft.notes.push(`step-up to ${level} was fulfilled already`);
    return;
  }
  const how = methods.length === 0 ? "" : ` by ${methods.join(", ")}`;
  draft.refusal ??= {
    kind: "forbidden",
    code: "step_up_required",
    reason: `this needs a stronger login (${level}${how}); get a token with it and try again`,
  };
}

/** Our own: `redact_arguments`, `remove_arguments`, `redact_result`, `remove_result` with `paths`, `note` with `text`. */
function custom(draft: Draft, { action, paths, text }: Readonly<Record<string, unknown>>): boolean {
  if (action === "note") {
    if (typeof text !== "string") return false;
    draft.notes.push(text.slice(0, 1000));
    return true;
  }
  const [verb, place] = typeof action === "string" ? action.split("_", 2) : [];
  if ((verb !== "redact" && verb !== "remove") || (place !== "arguments" && place !== "result")) return false;
  if (!Array.isArray(paths) || paths.length === 0) return false;
  const edits = place === "arguments" ? draft.argumentEdits : draft.resultEdits;
  for (const pointer of paths as readonly unknown[]) {
    if (typeof pointer !== "string" || !/^(?:\/(?:[^/~]|~[01])*)+$/u.test(pointer)) return false;
    edits.push({ pointer, action: verb });
  }
  return true;
}

function refuseObligation(draft: Draft, note: string): void {
  draft.notes.push(note);
  draft.refusal ??= {
    kind: "forbidden",
    code: "obligation_not_understood",
    reason: "the policy allows this only under a condition that the gateway cannot fulfil",
  };
}

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
  const mirrored = member === "result" ? mirroredContentEdits(message.bytes, span, plan, outcome.replacements) : [];
  const replacements = [...outcome.replacements, ...mirrored];
  return replacements.length === 0 ? undefined : { bytes: splice(message.bytes, message.outline, replacements) };
}
