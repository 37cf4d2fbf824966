import { isObject } from "../../lib/is-object.ts";
import { definitionKey, fingerprintsOf, type Definition } from "./definitions.ts";
import type { ApprovedDefinition } from "./lock.ts";

/** How serious a change is. */
export type Severity = "info" | "warn" | "critical";

/** A definition that differs from the approved one. */
export interface Drift {
  readonly type: "added" | "removed" | "changed";
  /** Kind and name, as in the lock file. */
  readonly key: string;
  readonly severity: Severity;
  /** The fields that changed. */
  readonly fields: readonly string[];
  /** Why it is critical. */
  readonly reasons: readonly string[];
}

/** Compares offered with approved definitions. Finds removed ones only if the lists are complete. */
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

/** How a definition differs from the approved one; undefined if it does not. */
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

/** What makes a change critical: invisible text, new URLs, weaker hints, more required arguments. */
function suspicions(now: Fields, before: Fields): readonly string[] {
  const [text, old] = [now, before].map((fields) => JSON.stringify(fields));
  const reasons: string[] = [];
  const [hidden, wasHidden] = [text, old].map((own) => hiddenCharacters(own ?? ""));
  if ((hidden ?? 0) > (wasHidden ?? 0)) reasons.push("has invisible characters");
  const urls = new Set((old ?? "").match(address) ?? []);
  const added = [...new Set((text ?? "").match(address) ?? [])].filter((url) => !urls.has(url));
  if (Object.keys(before).length > 0 && added.length > 0) reasons.push(`names new URLs: ${added.join(", ")}`);
  reasons.push(...weakened(now["annotations"], before["annotations"]));
  const required = newlyRequired(now["inputSchema"], before["inputSchema"]);
  if (required.length > 0) reasons.push(`requires new arguments: ${required.join(", ")}`);
  return reasons;
}

const address = /https?:\/\/[^\s"\\<>]+/gu;

/** Counts zero-width, bidirectional and tag characters, which can hide text from people. */
function hiddenCharacters(text: string): number {
  return (text.match(/[\u200B-\u200F\u202A-\u202E\u2060-\u2064\u2066-\u2069\uFEFF\u{E0000}-\u{E007F}]/gu) ?? []).length;
}

/** Hints that promise less than before. */
function weakened(now: unknown, before: unknown): readonly string[] {
  if (!isObject(now) || !isObject(before)) return [];
  const worse: readonly (readonly [string, boolean])[] = [
    ["readOnlyHint", false],
    ["destructiveHint", true],
    ["openWorldHint", true],
  ];
  return worse
    .filter(([name, bad]) => now[name] === bad && before[name] === !bad)
    .map(([name, bad]) => `${name} changed to ${bad}`);
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
