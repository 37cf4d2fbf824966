import { pointerProblem } from "../provider/edit-pointer.ts";
import type { Principal } from "../../core/exchange.ts";
import type { MessageChange } from "../../core/interceptors/action.ts";
import { planEdits, type PointerEdit, splice } from "../../protocol/json/edit.ts";
import { findAmbiguousName, knownNames, namePathOf } from "../../protocol/json/folded-names.ts";
import { spanOf } from "../../protocol/json/outline.ts";
import type { Message } from "../../protocol/message.ts";
import { memberEdits } from "../cel/effects.ts";
import type { PolicyRefusal } from "../provider/provider.ts";
import type { AuthZenDecision } from "./evaluation-api.ts";

/** Obligation types that the gateway can fulfil (AuthZEN Obligations profile, draft). */
export const understoodObligations: readonly string[] = ["step-up", "custom"];

/** What obligations ask for, or why they cannot be fulfilled. */
export interface FulfilledObligations {
  /** Undefined if all of them can be fulfilled. */
  readonly refusal: PolicyRefusal | undefined;
  readonly argumentEdits: readonly PointerEdit[];
  readonly resultEdits: readonly PointerEdit[];
  readonly notes: readonly string[];
  readonly hasAny: boolean;
}

interface Draft {
  refusal: PolicyRefusal | undefined;
  readonly argumentEdits: PointerEdit[];
  readonly resultEdits: PointerEdit[];
  readonly notes: string[];
}

/** Reads the obligations of decisions. One that is not understood refuses the message. */
export function readObligations(decisions: readonly AuthZenDecision[], principal: Principal): FulfilledObligations {
  const draft: Draft = { refusal: undefined, argumentEdits: [], resultEdits: [], notes: [] };
  const hasAny = decisions.some(({ context }) => Object.hasOwn(context, "obligations"));
  for (const { context } of decisions) {
    const { obligations = [] } = context;
    if (!Array.isArray(obligations)) refuse(draft, "`obligations` is not an array");
    else for (const obligation of obligations as readonly unknown[]) readObligation(draft, obligation, principal);
  }
  return { ...draft, hasAny };
}

function readObligation(draft: Draft, obligation: unknown, principal: Principal): void {
  const { type, id, properties } = Object(obligation) as Readonly<Record<string, unknown>>;
  const fields = Object(properties) as Readonly<Record<string, unknown>>;
  const shown = `${String(type)} (${String(id)})`;
  if (type === "step-up") readStepUp(draft, fields, principal);
  else if (type !== "custom" || fields["vendor"] !== "headgate") refuse(draft, `obligation ${shown} is not understood`);
  else if (!readCustom(draft, fields)) refuse(draft, `obligation ${shown} is malformed`);
}

/** Fulfilled if the caller's login is strong enough already; otherwise the caller is told which login is needed. */
function readStepUp(draft: Draft, fields: Readonly<Record<string, unknown>>, { claims }: Principal): void {
  const { acr_value: level, amr_values: methods = [] } = fields;
  if (typeof level !== "string" || !Array.isArray(methods)) {
    refuse(draft, "obligation step-up is malformed");
    return;
  }
  const used: unknown = claims["amr"];
  const hasMethods = methods.every((method: unknown) => Array.isArray(used) && used.includes(method));
  if (claims["acr"] === level && hasMethods) {
    draft.notes.push(`step-up to ${level} is already fulfilled`);
    return;
  }
  const how = methods.length === 0 ? "" : ` by ${methods.join(", ")}`;
  draft.refusal ??= {
    kind: "forbidden",
    code: "step_up_required",
    reason: `This needs a stronger login (${level}${how}); get a token with it and try again.`,
  };
}

/** `redact_arguments`, `remove_arguments`, `redact_result`, `remove_result` with `paths`, and `note` with `text`. */
function readCustom(draft: Draft, { action, paths, text }: Readonly<Record<string, unknown>>): boolean {
  if (action === "note") {
    if (typeof text !== "string") return false;
    draft.notes.push(text.slice(0, 1000));
    return true;
  }
  const [, verb, place] = /^(redact|remove)_(arguments|result)$/u.exec(typeof action === "string" ? action : "") ?? [];
  if (verb === undefined || (place !== "arguments" && place !== "result")) return false;
  if (!Array.isArray(paths) || paths.length === 0) return false;
  const edits = place === "arguments" ? draft.argumentEdits : draft.resultEdits;
  for (const pointer of paths as readonly unknown[]) {
    if (typeof pointer !== "string" || pointerProblem(pointer, place) !== undefined) return false;
    edits.push({ pointer, action: verb === "redact" ? "redact" : "remove" });
  }
  return true;
}

function refuse(draft: Draft, note: string): void {
  draft.notes.push(note);
  draft.refusal ??= obligationRefusal;
}

const obligationRefusal: PolicyRefusal = {
  kind: "forbidden",
  code: "obligation_not_understood",
  reason: "The policy allows this only under a condition that the gateway cannot fulfil.",
};

/** What a decision about a request asks to be done with the result. */
export interface ResultObligation {
  readonly resultEdits: readonly PointerEdit[];
}

export function isResultObligation(memory: unknown): memory is ResultObligation {
  return typeof memory === "object" && memory !== null && "resultEdits" in memory;
}

/** The change that applies edits to a member, if they change anything, or why they cannot be applied. */
export type ObligedEdit =
  | { readonly change?: MessageChange }
  | { readonly refusal: PolicyRefusal; readonly note: string };

/** Applies edits to a member. If the gateway cannot find a value reliably, it cannot fulfil the obligation. */
export function editMember(
  message: Message,
  member: "params.arguments" | "result",
  edits: readonly PointerEdit[],
): ObligedEdit {
  const span = spanOf(message.outline, member);
  if (edits.length === 0 || span === undefined) return {};
  if (member === "params.arguments") {
    const known = knownNames(edits.map(({ pointer }) => namePathOf(pointer)));
    const ambiguous = findAmbiguousName(message.bytes, span, known);
    if (ambiguous !== undefined) return notFulfilled("an argument name differs only in letter case");
  }
  try {
    const replacements = memberEdits(message.bytes, span, member, planEdits(edits));
    if (replacements.length === 0) return {};
    return { change: { bytes: splice(message.bytes, message.outline, replacements) } };
  } catch (error) {
    return notFulfilled(error instanceof Error ? error.message : "the message cannot be changed");
  }
}

function notFulfilled(problem: string): ObligedEdit {
  return { refusal: obligationRefusal, note: `an obligation cannot be fulfilled: ${problem}` };
}
