import type { MessageChange } from "../../core/interceptors/action.ts";
import { type Outline, spanOf } from "../../protocol/json/outline.ts";
import { scan } from "../../protocol/json/scan.ts";
import { splice, type Replacement } from "../../protocol/json/edit.ts";
import type { Message } from "../../protocol/message.ts";
import { detectPersonalData } from "../../redact/detectors/personal-data.ts";
import type { Detector } from "../../redact/detectors/detector.ts";
import { scanJsonStrings } from "../../redact/detectors/scan-texts.ts";
import { detectSecrets } from "../../redact/detectors/secrets.ts";
import type { PolicyRefusal } from "../provider/provider.ts";
import type { Bindings } from "./facts.ts";
import { toJson } from "./json-value.ts";
import { memberEdits } from "./member-edits.ts";
import type { EditEffect, Rule } from "./rules.ts";

/** What the effects of rules make of a message. */
export interface AppliedEffects {
  /** Its new form, where it has one. */
  readonly change: MessageChange | undefined;
  /** What was found in it that must not pass. */
  readonly refusal: PolicyRefusal | undefined;
  /** The rule that says so. */
  readonly rule: Rule | undefined;
  /** What was found, for operators. */
  readonly notes: readonly string[] | undefined;
}

/** Bytes on their way from one change to the next. */
interface Draft {
  readonly bytes: Buffer;
  readonly outline: Outline;
}

const none: AppliedEffects = { change: undefined, refusal: undefined, rule: undefined, notes: undefined };

/** Changes the arguments of a request as rules say; throws where a value cannot be put where it belongs. */
export function applyRequestEffects(message: Message, rules: readonly Rule[], bindings: Bindings): AppliedEffects {
  let draft: Draft = message;
  for (const { edits } of rules) if (edits !== undefined) draft = applyEditEffect(draft, "params", edits, bindings);
  return draft === message ? none : { ...none, change: { bytes: draft.bytes } };
}

/** Changes an answer as rules say, and looks for what they want to be found. */
export function applyResponseEffects(message: Message, rules: readonly Rule[], bindings: Bindings): AppliedEffects {
  let draft: Draft = message;
  const member = message.kind === "error" ? "error" : "result";
  for (const { edits } of rules) {
    if (edits !== undefined && member === "result") draft = applyEditEffect(draft, member, edits, bindings);
  }
  const notes: string[] = [];
  for (const rule of rules) {
    for (const [name, detect] of detectors) {
      const action = rule.detect?.[name];
      const span = action === undefined ? undefined : spanOf(draft.outline, member);
      if (span === undefined) continue;
      const { kinds, replacements, isInName } = scanJsonStrings(draft.bytes, span, detect);
      if (kinds.length === 0) continue;
      notes.push(`${rule.id} found ${kinds.join(", ")}`);
      // A name cannot be replaced without the risk of there being two of it.
      if (action === "deny" || (action === "redact" && isInName))
        return { ...none, refusal: detectionRefusals[name], rule, notes };
      if (action === "redact") draft = spliceDraft(draft, replacements);
    }
  }
  if (draft === message) return notes.length === 0 ? none : { ...none, notes };
  return { ...none, change: { bytes: draft.bytes }, notes: notes.length === 0 ? undefined : notes };
}

type DetectorName = "secrets" | "personalData";

const detectors: readonly (readonly [DetectorName, Detector])[] = [
  ["secrets", detectSecrets],
  ["personalData", detectPersonalData],
];

const detectionRefusals: Readonly<Record<DetectorName, PolicyRefusal>> = {
  secrets: {
    kind: "forbidden",
    code: "secrets_found",
    reason: "The answer holds what looks like a secret, which may not be passed on.",
  },
  personalData: {
    kind: "forbidden",
    code: "personal_data_found",
    reason: "The answer holds personal data, which may not be passed on.",
  },
};

function applyEditEffect(draft: Draft, member: "params" | "result", edits: EditEffect, bindings: Bindings): Draft {
  const span = spanOf(draft.outline, member);
  if (span === undefined) return draft;
  const values = edits.values.map((value) => (Buffer.isBuffer(value) ? value : jsonOf(value.evaluate(bindings))));
  return spliceDraft(draft, memberEdits(draft.bytes, span, member, edits.plan, values));
}

function jsonOf(value: unknown): Buffer {
  const json = toJson(value);
  if (json === undefined) throw new TypeError("a value that is to be set is no JSON");
  return Buffer.from(json);
}

function spliceDraft(draft: Draft, replacements: readonly Replacement[]): Draft {
  if (replacements.length === 0) return draft;
  const bytes = splice(draft.bytes, draft.outline, replacements);
  const outline = scan(bytes, 0, Number.MAX_SAFE_INTEGER);
  if (!outline.ok) throw new TypeError("a changed message is no JSON");
  return { bytes, outline };
}
