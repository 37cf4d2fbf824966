import { spanOf } from "./outline.ts";
import type { MemberName, Outline } from "./outline.ts";

/** Bytes together with the outline of the value in them; every message is one. */
export interface ScannedJson {
  readonly bytes: Buffer;
  readonly outline: Outline;
}

export type JsonType = "object" | "array" | "string" | "number" | "boolean" | "null";

/** The type of the JSON value that begins at an offset. */
export function typeAt(bytes: Uint8Array, offset: number): JsonType {
  switch (bytes[offset]) {
    case 0x7b:
      return "object";
    case 0x5b:
      return "array";
    case 0x22:
      return "string";
    case 0x74:
    case 0x66:
      return "boolean";
    case 0x6e:
      return "null";
    default:
      return "number";
  }
}

/** The type of a member, or undefined when the message does not have it. */
export function memberType(source: ScannedJson, name: MemberName): JsonType | undefined {
  const span = spanOf(source.outline, name);
  return span === undefined ? undefined : typeAt(source.bytes, span.start);
}

/** A member's exact source text, or undefined when absent. */
export function memberSource(source: ScannedJson, name: MemberName): string | undefined {
  const span = spanOf(source.outline, name);
  return span === undefined ? undefined : source.bytes.toString("utf8", span.start, span.end);
}

/** A member's string value; undefined when absent or of another type. */
export function memberString(source: ScannedJson, name: MemberName): string | undefined {
  const span = spanOf(source.outline, name);
  if (span === undefined || source.bytes[span.start] !== 0x22) return undefined;
  return decodeString(source.bytes, span.start, span.end);
}

/** A member's integer value; undefined when absent, of another type, fractional, or too big to be exact. */
export function memberInteger(source: ScannedJson, name: MemberName): number | undefined {
  const text = memberType(source, name) === "number" ? memberSource(source, name) : undefined;
  const value = text === undefined ? Number.NaN : Number(text);
  return Number.isSafeInteger(value) ? value : undefined;
}

/** A member's boolean value; undefined when absent or of another type. */
export function memberBoolean(source: ScannedJson, name: MemberName): boolean | undefined {
  const span = spanOf(source.outline, name);
  if (span === undefined) return undefined;
  const first = source.bytes[span.start];
  return first === 0x74 ? true : first === 0x66 ? false : undefined;
}

/** A member built as a JavaScript value, for those who really need to look inside; undefined when absent. */
export function memberValue(source: ScannedJson, name: MemberName): unknown {
  const text = memberSource(source, name);
  return text === undefined ? undefined : JSON.parse(text);
}

/** The text of a JSON string from its opening quote to behind its closing one. */
export function decodeString(bytes: Buffer, start: number, end: number): string {
  const text = bytes.toString("utf8", start + 1, end - 1);
  return text.includes("\\") ? String(JSON.parse(`"${text}"`)) : text;
}
