import { type MemberName, type Outline, type Span, spanOf } from "./outline.ts";
import { skipSpace } from "./scan.ts";

/** One change: the bytes of a span give way to others. */
export interface Replacement {
  readonly span: Span;
  readonly bytes: Buffer;
}

/** Replaces spans and leaves every other byte as it was. Spans must not overlap; their order does not matter. */
export function splice(bytes: Buffer, within: Span, replacements: readonly Replacement[]): Buffer {
  const [only] = replacements;
  if (only === undefined) return bytes.subarray(within.start, within.end);
  if (replacements.length === 1) return spliceOne(bytes, within, only);
  const ordered = replacements.toSorted((a, b) => a.span.start - b.span.start);
  let length = within.end - within.start;
  let at = within.start;
  for (const { span, bytes: replacement } of ordered) {
    if (span.start < at) throw new RangeError("spans to replace overlap");
    length += replacement.length - (span.end - span.start);
    at = span.end;
  }
  const result = Buffer.allocUnsafe(length);
  let to = 0;
  at = within.start;
  for (const { span, bytes: replacement } of ordered) {
    to += bytes.copy(result, to, at, span.start);
    to += replacement.copy(result, to);
    at = span.end;
  }
  bytes.copy(result, to, at, within.end);
  return result;
}

function spliceOne(bytes: Buffer, within: Span, { span, bytes: replacement }: Replacement): Buffer {
  const head = span.start - within.start;
  const tail = within.end - span.end;
  const result = Buffer.allocUnsafe(head + replacement.length + tail);
  bytes.copy(result, 0, within.start, span.start);
  replacement.copy(result, head);
  bytes.copy(result, head + replacement.length, span.end, within.end);
  return result;
}

/** Replaces one known member's value by other JSON text; undefined when the message does not have the member. */
export function replaceMember(
  source: { readonly bytes: Buffer; readonly outline: Outline },
  name: MemberName,
  json: string | Buffer,
): Buffer | undefined {
  const span = spanOf(source.outline, name);
  if (span === undefined) return undefined;
  const bytes = typeof json === "string" ? Buffer.from(json) : json;
  return splice(source.bytes, source.outline, [{ span, bytes }]);
}

/**
 * Adds a member at the front of an object's members; the object is given by its span.
 * The caller knows that no member of that name is there.
 */
export function insertMember(bytes: Buffer, within: Span, object: Span, key: string, json: string | Buffer): Buffer {
  const isEmpty = skipSpace(bytes, object.start + 1, object.end) === object.end - 1;
  const text = Buffer.concat([
    Buffer.from(`${JSON.stringify(key)}:`),
    typeof json === "string" ? Buffer.from(json) : json,
    Buffer.from(isEmpty ? "" : ","),
  ]);
  const at = object.start + 1;
  return splice(bytes, within, [{ span: { start: at, end: at }, bytes: text }]);
}

const [comma, opening, closing] = [0x2c, 0x7b, 0x7d] as const;

/**
 * The span of a whole member, its name and one comma included, so that taking it out leaves a valid object. Given by
 * its value, whose name the scanner has read; undefined where it is not written the usual way, without spaces.
 */
export function memberSpan(bytes: Buffer, value: Span, name: string): Span | undefined {
  const head = `"${name}":`;
  const start = value.start - head.length;
  if (start < 1 || bytes.toString("latin1", start, value.start) !== head) return undefined;
  const [before, behind] = [bytes[start - 1], bytes[value.end]];
  if (behind === comma) return { start, end: value.end + 1 };
  if (behind !== closing) return undefined;
  if (before === comma) return { start: start - 1, end: value.end };
  return before === opening ? { start, end: value.end } : undefined;
}
