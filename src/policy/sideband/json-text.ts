import { isUtf8 } from "node:buffer";

import type { Span } from "../../protocol/json/outline.ts";
import { scan, skipSpace } from "../../protocol/json/scan.ts";
import { membersOf } from "../../protocol/json/walk.ts";

/** One member of an object to be written: its name, and its value as JSON text. */
export type TextMember = readonly [name: string, json: string];

/** The text of an object whose values are JSON texts already; what is undefined is left out. */
export function objectText(members: readonly (TextMember | undefined)[]): string {
  const parts: string[] = [];
  for (const member of members)
    if (member !== undefined) parts.push(`${JSON.stringify(member[0])}:${member[1]}`);
  return `{${parts.join(",")}}`;
}

/**
 * Where the values of an object's own members stand; of equal names the last, as `JSON.parse` takes them. Undefined
 * when the bytes are not exactly one JSON object.
 */
export function memberSpans(bytes: Buffer): ReadonlyMap<string, Span> | undefined {
  if (!isUtf8(bytes)) return undefined;
  const outline = scan(bytes, 0, Number.MAX_SAFE_INTEGER);
  if (!outline.ok || skipSpace(bytes, outline.end, bytes.length) < bytes.length) return undefined;
  if (bytes[outline.start] !== 0x7b) return undefined;
  const spans = new Map<string, Span>();
  for (const { name, value } of membersOf(bytes, outline)) spans.set(name, value);
  return spans;
}

/** The source text of one of an object's own members, digits and order as they came. */
export function memberText(bytes: Buffer, name: string): string | undefined {
  const span = memberSpans(bytes)?.get(name);
  return span === undefined ? undefined : bytes.toString("utf8", span.start, span.end);
}

/** The value of a JSON text; undefined when it is none. `null` stays `null`. */
export function parseJson(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return undefined;
  }
}

/** Whether a value is an object and no list. */
export function isJsonRecord(value: unknown): value is Readonly<Record<string, unknown>> {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}
