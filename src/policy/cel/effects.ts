import type { MessageChange } from "../../core/interceptors/action.ts";
import { applyEdits, type EditPlan, planBelow, type Replacement, splice } from "../../protocol/json/edit.ts";
import { type Outline, type Span, spanOf } from "../../protocol/json/outline.ts";
import { decodeString, elementsOf, membersOf, typeAt } from "../../protocol/json/read.ts";
import { scan, skipSpace } from "../../protocol/json/scan.ts";
import type { Message } from "../../protocol/message.ts";
import { type Detector, scanJsonStrings } from "../../redact/detectors/detector.ts";
import { detectPersonalData } from "../../redact/detectors/personal-data.ts";
import { detectSecrets } from "../../redact/detectors/secrets.ts";
import type { PolicyRefusal } from "../provider/provider.ts";
import type { Bindings } from "./facts.ts";
import { toJson } from "./json-value.ts";
import type { EditEffect, Rule } from "./rules.ts";

/** What the effects of rules did to a message. */
export interface AppliedEffects {
  readonly change?: MessageChange;
  /** Something was detected that must not pass. */
  readonly refusal?: PolicyRefusal;
  /** The rule that refused. */
  readonly rule?: Rule;
  readonly notes?: readonly string[];
}

interface Draft {
  readonly bytes: Buffer;
  readonly outline: Outline;
}

/** Edits the arguments of a request; throws if a value cannot be set. */
export function applyRequestEffects(message: Message, rules: readonly Rule[], bindings: Bindings): AppliedEffects {
  const draft = applyAllEdits(message, "params", rules, bindings);
  return draft === message ? {} : { change: { bytes: draft.bytes } };
}

/** Edits a response, then runs the detectors on it. */
export function applyResponseEffects(message: Message, rules: readonly Rule[], bindings: Bindings): AppliedEffects {
  const member = message.kind === "error" ? "error" : "result";
  let draft = member === "error" ? message : applyAllEdits(message, member, rules, bindings);
  const found: string[] = [];
  for (const rule of rules) {
    for (const [name, { detect, refusal }] of detectors) {
      const action = rule.detect?.[name];
      const span = action === undefined ? undefined : spanOf(draft.outline, member);
      if (span === undefined) continue;
      const { kinds, replacements, isInName } = scanJsonStrings(draft.bytes, span, detect);
      if (kinds.length === 0) continue;
      found.push(`${rule.id} found ${kinds.join(", ")}`);
      // A redacted member name could collide with another one, so the message is refused.
      if (action === "deny" || (action === "redact" && isInName)) return { refusal, rule, notes: found };
      if (action === "redact") draft = spliceDraft(draft, replacements);
    }
  }
  const notes = found.length === 0 ? {} : { notes: found };
  return draft === message ? notes : { change: { bytes: draft.bytes }, ...notes };
}

interface DetectorFacts {
  readonly detect: Detector;
  readonly refusal: PolicyRefusal;
}

const detectors: readonly (readonly ["secrets" | "personalData", DetectorFacts])[] = [
  [
    "secrets",
    {
      detect: detectSecrets,
      refusal: {
        kind: "forbidden",
        code: "secrets_found",
        reason: "The result contains what looks like a secret and is withheld.",
      },
    },
  ],
  [
    "personalData",
    {
      detect: detectPersonalData,
      refusal: {
        kind: "forbidden",
        code: "personal_data_found",
        reason: "The result contains personal data and is withheld.",
      },
    },
  ],
];

function applyAllEdits(
  message: Message,
  member: "params" | "result",
  rules: readonly Rule[],
  bindings: Bindings,
): Draft {
  let draft: Draft = message;
  for (const { edits } of rules) if (edits !== undefined) draft = applyEditEffect(draft, member, edits, bindings);
  return draft;
}

function applyEditEffect(draft: Draft, member: "params" | "result", edits: EditEffect, bindings: Bindings): Draft {
  const span = spanOf(draft.outline, member);
  if (span === undefined) return draft;
  const values = edits.values.map((value) => (Buffer.isBuffer(value) ? value : jsonOf(value.evaluate(bindings))));
  return spliceDraft(draft, memberEdits(draft.bytes, span, member, edits.plan, values));
}

function jsonOf(value: unknown): Buffer {
  const json = toJson(value);
  if (json === undefined) throw new TypeError("the value of `set` is not JSON");
  return Buffer.from(json);
}

function spliceDraft(draft: Draft, replacements: readonly Replacement[]): Draft {
  if (replacements.length === 0) return draft;
  const bytes = splice(draft.bytes, draft.outline, replacements);
  const outline = scan(bytes, 0, Number.MAX_SAFE_INTEGER);
  if (!outline.ok) throw new TypeError("the changed message is not JSON");
  return { bytes, outline };
}

const maxDepth = 128;

/**
 * The replacements that carry out edits in `params`, `params.arguments` or `result` of a message; throws if a value
 * cannot be set. In a result they also cover text that repeats the structured content: tools should return it as JSON in
 * a text block too (MCP 2025-11-25, Tools), and what is redacted in one must not stay in the other.
 */
export function memberEdits(
  bytes: Buffer,
  span: Span,
  member: "params" | "params.arguments" | "result",
  plan: EditPlan,
  values: readonly Buffer[] = [],
): readonly Replacement[] {
  const outcome = applyEdits(bytes, span, plan, values);
  if (!outcome.ok) throw new TypeError(`cannot be changed: ${outcome.problem}`);
  const { replacements } = outcome;
  const structured = member === "result" ? planBelow(plan, "structuredContent") : undefined;
  return structured === undefined
    ? replacements
    : [...replacements, ...textEdits(bytes, span, structured, replacements)];
}

function textEdits(bytes: Buffer, result: Span, plan: EditPlan, taken: readonly Replacement[]): readonly Replacement[] {
  const replacements: Replacement[] = [];
  const ordered = taken.map(({ span }) => span).toSorted((one, other) => one.start - other.start);
  let next = 0;
  for (const { name, value } of membersOf(bytes, result)) {
    if (name !== "content" || typeAt(bytes, value.start) !== "array") continue;
    for (const block of elementsOf(bytes, value)) {
      const text = textSpan(bytes, block);
      if (text === undefined) continue;
      // Both are in the order of the bytes, and spans do not overlap each other.
      while ((ordered[next]?.end ?? Infinity) <= text.start) next++;
      if ((ordered[next]?.start ?? Infinity) < text.end) continue;
      const edited = editJsonText(decodeString(bytes, text.start, text.end), plan);
      if (edited !== undefined) replacements.push({ span: text, bytes: Buffer.from(JSON.stringify(edited)) });
    }
  }
  return replacements;
}

/** The text of a block, or of the resource embedded in one. */
function textSpan(bytes: Buffer, block: Span): Span | undefined {
  if (typeAt(bytes, block.start) !== "object") return undefined;
  for (const { name, value } of membersOf(bytes, block)) {
    if (name === "text" && typeAt(bytes, value.start) === "string") return value;
    if (name === "resource") return textSpan(bytes, value);
  }
  return undefined;
}

/** The text after the edits; undefined if it is not JSON, or nothing in it changes. */
function editJsonText(text: string, plan: EditPlan): string | undefined {
  const bytes = Buffer.from(text);
  const start = skipSpace(bytes, 0, bytes.length);
  if (bytes[start] !== 0x7b && bytes[start] !== 0x5b) return undefined;
  const outline = scan(bytes, start, maxDepth);
  if (!outline.ok || skipSpace(bytes, outline.end, bytes.length) < bytes.length) return undefined;
  const outcome = applyEdits(bytes, outline, plan);
  if (!outcome.ok || outcome.replacements.length === 0) return undefined;
  return splice(bytes, { start: 0, end: bytes.length }, outcome.replacements).toString();
}
