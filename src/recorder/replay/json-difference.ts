import { pointerSteps, pointerTo } from "../../protocol/json/read.ts";
import { hasPlaceholder } from "../../redact/plain-text.ts";
import { canonicalText, ExactNumber } from "../../lib/canonical-json.ts";

/** A JSON Pointer (RFC 6901) at which two values differ. */
export interface JsonDifference {
  readonly path: string;
  /** `unknown` if a value was redacted. */
  readonly type: "added" | "removed" | "changed" | "unknown";
  readonly before?: unknown;
  readonly after?: unknown;
}

/** How to compare values. */
export interface DifferenceOptions {
  /** JSON Pointers to ignore; `*` is any member or element. */
  readonly ignore?: readonly string[];
  /** Whether equal placeholders are equal values, as within one capture. */
  readonly sharesPlaceholders?: boolean;
  /** Most differences to find. Default: 1,000. */
  readonly limit?: number;
}

/** Finds the differences of two JSON values. */
export function jsonDifferences(
  before: unknown,
  after: unknown,
  { ignore = [], sharesPlaceholders = false, limit = 1000 }: DifferenceOptions = {},
): readonly JsonDifference[] {
  const found: JsonDifference[] = [];
  const ignored = ignore.map(pointerSteps);

  function compare(a: unknown, b: unknown, path: readonly string[]): void {
    if (found.length >= limit || ignored.some((pattern) => covers(pattern, path))) return;
    if (isRedacted(a) || isRedacted(b)) {
      if (a !== b || !sharesPlaceholders) found.push({ path: pointerTo(path), type: "unknown", before: a, after: b });
      return;
    }
    if (Array.isArray(a) && Array.isArray(b)) {
      for (let index = 0; index < Math.max(a.length, b.length); index++) {
        member(index < a.length, a[index], index < b.length, b[index], [...path, String(index)]);
      }
      return;
    }
    if (isPlainObject(a) && isPlainObject(b)) {
      for (const name of new Set([...Object.keys(a), ...Object.keys(b)])) {
        member(Object.hasOwn(a, name), a[name], Object.hasOwn(b, name), b[name], [...path, name]);
      }
      return;
    }
    if (canonicalText(a) !== canonicalText(b))
      found.push({ path: pointerTo(path), type: "changed", before: a, after: b });
  }

  function member(hasA: boolean, a: unknown, hasB: boolean, b: unknown, path: readonly string[]): void {
    if (hasA && hasB) compare(a, b, path);
    else if (found.length < limit && !ignored.some((pattern) => covers(pattern, path)))
      found.push(
        hasA
          ? { path: pointerTo(path), type: "removed", before: a }
          : { path: pointerTo(path), type: "added", after: b },
      );
  }

  compare(before, after, []);
  return found;
}

/** Describes a difference on one line. */
export function describeDifference({ path, type, before, after }: JsonDifference): string {
  const place = path === "" ? "the whole value" : path;
  switch (type) {
    case "added":
      return `${place}: added ${brief(after)}`;
    case "removed":
      return `${place}: removed ${brief(before)}`;
    case "changed":
      return `${place}: ${brief(before)} changed to ${brief(after)}`;
    case "unknown":
      return `${place}: not comparable, redacted`;
  }
}

function brief(value: unknown): string {
  const text = canonicalText(value);
  return text.length <= 80 ? text : `${text.slice(0, 77)}…`;
}

function isRedacted(value: unknown): boolean {
  return typeof value === "string" && hasPlaceholder(value);
}

function isPlainObject(value: unknown): value is Readonly<Record<string, unknown>> {
  return typeof value === "object" && value !== null && !Array.isArray(value) && !(value instanceof ExactNumber);
}

function covers(pattern: readonly string[], path: readonly string[]): boolean {
  return pattern.length <= path.length && pattern.every((part, index) => part === "*" || part === path[index]);
}
