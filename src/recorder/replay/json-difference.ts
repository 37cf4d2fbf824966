import { hasPlaceholder } from "../../redact/plain-text.ts";
import { canonicalText, ExactNumber } from "../../lib/canonical-json.ts";

/** One place at which two values differ, as a JSON Pointer (RFC 6901). */
export interface JsonDifference {
  readonly path: string;
  /** `unknown` where redaction took away what would have to be compared. */
  readonly type: "added" | "removed" | "changed" | "unknown";
  readonly before?: unknown;
  readonly after?: unknown;
}

/** How values are compared. */
export interface DifferenceOptions {
  /** JSON Pointers of places that do not matter; `*` is any member or element. */
  readonly ignore?: readonly string[];
  /** Equal placeholders stand for equal values: true within one capture only. */
  readonly sharesPlaceholders?: boolean;
  /** No more than this many are looked for; 1,000 unless given. */
  readonly limit?: number;
}

/** Every place at which two JSON values differ, in the order of the first one's members. */
export function jsonDifferences(
  before: unknown,
  after: unknown,
  { ignore = [], sharesPlaceholders = false, limit = 1000 }: DifferenceOptions = {},
): readonly JsonDifference[] {
  const found: JsonDifference[] = [];
  const ignored = ignore.map((pointer) => pointer.split("/").slice(1).map(unescape));

  function compare(a: unknown, b: unknown, path: readonly string[]): void {
    if (found.length >= limit || ignored.some((pattern) => covers(pattern, path))) return;
    if (isRedacted(a) || isRedacted(b)) {
      if (a !== b || !sharesPlaceholders) found.push({ path: pointerOf(path), type: "unknown", before: a, after: b });
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
      found.push({ path: pointerOf(path), type: "changed", before: a, after: b });
  }

  function member(hasA: boolean, a: unknown, hasB: boolean, b: unknown, path: readonly string[]): void {
    if (hasA && hasB) compare(a, b, path);
    else if (found.length < limit && !ignored.some((pattern) => covers(pattern, path)))
      found.push(
        hasA
          ? { path: pointerOf(path), type: "removed", before: a }
          : { path: pointerOf(path), type: "added", after: b },
      );
  }

  compare(before, after, []);
  return found;
}

/** A difference on one line, for people. */
export function describeDifference({ path, type, before, after }: JsonDifference): string {
  const place = path === "" ? "the whole value" : path;
  switch (type) {
    case "added":
      return `${place}: added ${brief(after)}`;
    case "removed":
      return `${place}: removed ${brief(before)}`;
    case "changed":
      return `${place}: ${brief(before)} became ${brief(after)}`;
    case "unknown":
      return `${place}: cannot be compared, it was redacted`;
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

function pointerOf(path: readonly string[]): string {
  return path.map((name) => `/${name.replaceAll("~", "~0").replaceAll("/", "~1")}`).join("");
}

function unescape(part: string): string {
  return part.replaceAll("~1", "/").replaceAll("~0", "~");
}
