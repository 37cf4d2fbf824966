import type { MessageChange } from "../../core/interceptors/action.ts";
import { type Replacement, splice } from "../../protocol/json/edit.ts";
import { type Outline, spanOf } from "../../protocol/json/outline.ts";
import { scan } from "../../protocol/json/scan.ts";
import type { Message } from "../../protocol/message.ts";
import type { Detector } from "../../redact/detectors/detector.ts";
import { detectPersonalData } from "../../redact/detectors/personal-data.ts";
import { scanJsonStrings } from "../../redact/detectors/scan-texts.ts";
import { detectSecrets } from "../../redact/detectors/secrets.ts";
import type { PolicyRefusal } from "../provider/provider.ts";
import type { Bindings } from "./facts.ts";
import { toJson } from "./json-value.ts";
import { memberEdits } from "./member-edits.ts";
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
  for (const { edits } of rules) if (edits !== undefined) draft = applyEdits(draft, member, edits, bindings);
  return draft;
}

function applyEdits(draft: Draft, member: "params" | "result", edits: EditEffect, bindings: Bindings): Draft {
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
