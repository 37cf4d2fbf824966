import { type MemberName, type Outline, type Span, spanOf } from "./outline.ts";
import { skipSpace } from "./scan.ts";
import { scanString, type StringScanState } from "./strings.ts";

/** Bytes with the outline of the JSON value in them. Every message is one. */
export interface ScannedJson {
  readonly bytes: Buffer;
  readonly outline: Outline;
}

/** The type of a JSON value. */
export type JsonType = "object" | "array" | "string" | "number" | "boolean" | "null";

/** The type of the JSON value at an offset. */
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

/** The type of a member; undefined if absent. */
export function memberType(source: ScannedJson, name: MemberName): JsonType | undefined {
  const span = spanOf(source.outline, name);
  return span === undefined ? undefined : typeAt(source.bytes, span.start);
}

/** The source text of a member; undefined if absent. */
export function memberSource(source: ScannedJson, name: MemberName): string | undefined {
  const span = spanOf(source.outline, name);
  return span === undefined ? undefined : source.bytes.toString("utf8", span.start, span.end);
}

/**
 * The string value of a member; undefined if absent or of another type.
 *
 * @example
 * memberString(message, "params.name"); // "weigh"
 */
export function memberString(source: ScannedJson, name: MemberName): string | undefined {
  const span = spanOf(source.outline, name);
  if (span === undefined || source.bytes[span.start] !== 0x22) return undefined;
  return decodeString(source.bytes, span.start, span.end);
}

/** The integer value of a member; undefined if absent, of another type, fractional or beyond 2^53. */
export function memberInteger(source: ScannedJson, name: MemberName): number | undefined {
  const text = memberType(source, name) === "number" ? memberSource(source, name) : undefined;
  const value = text === undefined ? Number.NaN : Number(text);
  return Number.isSafeInteger(value) ? value : undefined;
}

/** The boolean value of a member; undefined if absent or of another type. */
export function memberBoolean(source: ScannedJson, name: MemberName): boolean | undefined {
  const span = spanOf(source.outline, name);
  if (span === undefined) return undefined;
  const first = source.bytes[span.start];
  return first === 0x74 ? true : first === 0x66 ? false : undefined;
}

/** A member as a JavaScript value; undefined if absent. */
export function memberValue(source: ScannedJson, name: MemberName): unknown {
  const text = memberSource(source, name);
  return text === undefined ? undefined : JSON.parse(text);
}

/** Decodes the JSON string between two offsets, which include its quotes. */
export function decodeString(bytes: Buffer, start: number, end: number): string {
  const text = bytes.toString("utf8", start + 1, end - 1);
  return text.includes("\\") ? String(JSON.parse(`"${text}"`)) : text;
}

/** One step of a JSON Pointer, escaped (RFC 6901 section 3). */
export function pointerStep(key: string | number): string {
  return `/${String(key).replaceAll("~", "~0").replaceAll("/", "~1")}`;
}

/** The JSON Pointer of a path of member names and array indexes. */
export function pointerTo(path: readonly (string | number)[]): string {
  return path.map(pointerStep).join("");
}

/** The unescaped steps of a JSON Pointer. */
export function pointerSteps(pointer: string): readonly string[] {
  const steps = pointer.slice(1).split("/");
  return steps.map((step) => step.replaceAll("~1", "/").replaceAll("~0", "~"));
}

/** One member of an object. */
export interface Member {
  /** Decoded. */
  readonly name: string;
  /** Where the member begins: the opening quote of its name. */
  readonly start: number;
  readonly value: Span;
}

/** The members of an object in order, with duplicates. The scanner must have accepted the bytes. */
export function* membersOf(bytes: Buffer, object: Span): Generator<Member, void, undefined> {
  const notes: StringScanState = { quote: -1, backslash: -1, loneSurrogateAt: -1 };
  let at = skipSpace(bytes, object.start + 1, object.end);
  while (bytes[at] === 0x22) {
    const behindName = scanString(bytes, at + 1, object.end, notes);
    const name = decodeString(bytes, at, behindName);
    const colon = skipSpace(bytes, behindName, object.end);
    const start = skipSpace(bytes, colon + 1, object.end);
    const end = skipValue(bytes, start, object.end, notes);
    yield { name, start: at, value: { start, end } };
    at = skipSpace(bytes, skipSpace(bytes, end, object.end) + 1, object.end);
  }
}

/**
 * The value of an object's first member of this name, which is ASCII without escapes; undefined if there is none. The scanner must have
 * accepted the bytes. Needed by bench big: "a list of 10,000 tools"; `membersOf` takes several times as long for the first member.
 */
export function findMember(bytes: Buffer, object: Span, name: string): Span | undefined {
  const notes: StringScanState = { quote: -1, backslash: -1, loneSurrogateAt: -1 };
  let at = skipSpace(bytes, object.start + 1, object.end);
  while (bytes[at] === 0x22) {
    const behindName = scanString(bytes, at + 1, object.end, notes);
    const colon = skipSpace(bytes, behindName, object.end);
    const start = skipSpace(bytes, colon + 1, object.end);
    const end = skipValue(bytes, start, object.end, notes);
    if (isNamed(bytes, at, behindName, name)) return { start, end };
    at = skipSpace(bytes, skipSpace(bytes, end, object.end) + 1, object.end);
  }
  return undefined;
}

/** Whether the JSON string between two offsets is this text, in whatever spelling. */
function isNamed(bytes: Buffer, start: number, end: number, name: string): boolean {
  const length = end - start - 2;
  // An escape is longer than what it stands for.
  if (length !== name.length) return length > name.length && decodeString(bytes, start, end) === name;
  for (let index = 0; index < name.length; index++) {
    if (bytes[start + 1 + index] !== name.charCodeAt(index)) return false;
  }
  return true;
}

/** The elements of an array in order. The scanner must have accepted the bytes. */
export function* elementsOf(bytes: Buffer, array: Span): Generator<Span, void, undefined> {
  const notes: StringScanState = { quote: -1, backslash: -1, loneSurrogateAt: -1 };
  let start = skipSpace(bytes, array.start + 1, array.end);
  while (start < array.end && bytes[start] !== 0x5d) {
    const end = skipValue(bytes, start, array.end, notes);
    yield { start, end };
    start = skipSpace(bytes, skipSpace(bytes, end, array.end) + 1, array.end);
  }
}

/** The end of the value at `from`, found by counting brackets outside of strings. */
export function skipValue(bytes: Buffer, from: number, end: number, notes: StringScanState): number {
  let depth = 0;
  let i = from;
  while (i < end) {
    const c = bytes[i] ?? 0;
    if (c === 0x22) i = scanString(bytes, i + 1, end, notes);
    else if (c === 0x7b || c === 0x5b) {
      depth++;
      i++;
    } else if (c === 0x7d || c === 0x5d) {
      depth--;
      i++;
    } else i = depth === 0 ? skipScalar(bytes, i, end) : i + 1;
    if (depth === 0) return i;
  }
  return end;
}

/** A scalar ends before a comma, a bracket or white space. */
function skipScalar(bytes: Buffer, from: number, end: number): number {
  for (let i = from; i < end; i++) {
    const c = bytes[i] ?? 0;
    if (c === 0x2c || c === 0x7d || c === 0x5d || c <= 0x20) return i;
  }
  return end;
}
