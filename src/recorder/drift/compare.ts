import { isObject } from "../../lib/is-object.ts";
import { definitionKey, fingerprintsOf, type Definition } from "./definitions.ts";
import type { ApprovedDefinition } from "./lock.ts";

/** How much a change matters to whoever trusts a server. */
export type Severity = "info" | "warn" | "critical";

/** A definition that is not as it was approved. */
export interface Drift {
  readonly type: "added" | "removed" | "changed";
  /** Kind and name. */
  readonly key: string;
  readonly severity: Severity;
  /** The fields that differ; none for what was added or removed. */
  readonly fields: readonly string[];
  /** Why it is critical, for people. */
  readonly reasons: readonly string[];
}

/** What differs between what is offered and what was approved. Nothing is `removed` unless the lists are complete. */
export function findDrift(
  offered: readonly Definition[],
  approved: Readonly<Record<string, ApprovedDefinition>>,
  { isComplete }: { readonly isComplete: boolean },
): readonly Drift[] {
  const seen = new Set<string>();
  const found: Drift[] = [];
  for (const definition of offered) {
    const key = definitionKey(definition);
    seen.add(key);
    const drift = driftOfDefinition(definition, Object.hasOwn(approved, key) ? approved[key] : undefined);
    if (drift !== undefined) found.push(drift);
  }
  if (!isComplete) return found;
  const gone = Object.keys(approved).filter((key) => !seen.has(key));
  return [...found, ...gone.map((key): Drift => ({ type: "removed", key, severity: "info", fields: [], reasons: [] }))];
}

/** How one definition differs from what was approved; undefined where it does not. */
export function driftOfDefinition(definition: Definition, approved: ApprovedDefinition | undefined): Drift | undefined {
  const key = definitionKey(definition);
  if (approved === undefined) {
    const reasons = suspicions(definition.fields, {});
    const severity = reasons.length > 0 ? "critical" : "warn";
    return { type: "added", key, severity, fields: [], reasons };
  }
  const now = fingerprintsOf(definition);
  const names = new Set([...Object.keys(now), ...Object.keys(approved.fingerprints)]);
  const fields = [...names].filter((name) => now[name] !== approved.fingerprints[name]);
  if (fields.length === 0) return undefined;
  const reasons = suspicions(definition.fields, approved.fields);
  const isMinor = fields.every((name) => minorFields.has(name));
  const severity = reasons.length > 0 ? "critical" : isMinor ? "info" : "warn";
  return { type: "changed", key, severity, fields, reasons };
}

const minorFields: ReadonlySet<string> = new Set(["title", "icons", "_meta"]);

type Fields = Readonly<Record<string, unknown>>;

/** What makes a change more than a change: text that people do not see, new addresses, weaker promises, more to give. */
function suspicions(now: Fields, before: Fields): readonly string[] {
  const [text, old] = [now, before].map((fields) => JSON.stringify(fields));
  const reasons: string[] = [];
  const [hidden, wasHidden] = [text, old].map((own) => hiddenCharacters(own ?? ""));
  if ((hidden ?? 0) > (wasHidden ?? 0)) reasons.push("it has characters that people do not see");
  const urls = new Set((old ?? "").match(address) ?? []);
  const added = [...new Set((text ?? "").match(address) ?? [])].filter((url) => !urls.has(url));
  if (Object.keys(before).length > 0 && added.length > 0) reasons.push(`it names new addresses: ${added.join(", ")}`);
  reasons.push(...weakened(now["annotations"], before["annotations"]));
  const required = newlyRequired(now["inputSchema"], before["inputSchema"]);
  if (required.length > 0) reasons.push(`it requires more: ${required.join(", ")}`);
  return reasons;
}

const address = /https?:\/\/[^\s"\\<>]+/gu;

/** Zero-width and bidirectional characters, and tags, which can hold text that only models read. */
function hiddenCharacters(text: string): number {
  return (text.match(/[\u200B-\u200F\u202A-\u202E\u2060-\u2064\u2066-\u2069\uFEFF\u{E0000}-\u{E007F}]/gu) ?? []).length;
}

/** Hints that promise less than they did. */
function weakened(now: unknown, before: unknown): readonly string[] {
  if (!isObject(now) || !isObject(before)) return [];
  const worse: readonly (readonly [string, boolean])[] = [
    ["readOnlyHint", false],
    ["destructiveHint", true],
    ["openWorldHint", true],
  ];
  return worse
    .filter(([name, bad]) => now[name] === bad && before[name] === !bad)
    .map(([name, bad]) => `${name} has become ${bad}`);
}

function newlyRequired(now: unknown, before: unknown): readonly string[] {
  const namesIn = (schema: unknown): readonly unknown[] => {
    const required = isObject(schema) ? schema["required"] : undefined;
    return Array.isArray(required) ? required : [];
  };
  if (!isObject(before)) return [];
  const old = new Set(namesIn(before));
  return namesIn(now).filter((name): name is string => typeof name === "string" && !old.has(name));
}
