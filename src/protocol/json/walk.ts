import type { Span } from "./outline.ts";
import { decodeString } from "./read.ts";
import { skipSpace } from "./scan.ts";
import { scanString } from "./strings.ts";
import type { StringScanState } from "./strings.ts";

/** One member of an object: its name, decoded, and where its value stands. */
export interface Member {
  readonly name: string;
  readonly value: Span;
}

/**
 * The members of an object in their order, duplicates included. Only for bytes that the scanner has accepted: nothing
 * is checked again.
 */
export function* membersOf(bytes: Buffer, object: Span): Generator<Member, void, undefined> {
  const notes: StringScanState = { quote: -1, backslash: -1, loneSurrogateAt: -1 };
  let at = skipSpace(bytes, object.start + 1, object.end);
  while (bytes[at] === 0x22) {
    const behindName = scanString(bytes, at + 1, object.end, notes);
    const name = decodeString(bytes, at, behindName);
    const colon = skipSpace(bytes, behindName, object.end);
    const start = skipSpace(bytes, colon + 1, object.end);
    const end = skipValue(bytes, start, object.end, notes);
    yield { name, value: { start, end } };
    at = skipSpace(bytes, skipSpace(bytes, end, object.end) + 1, object.end);
  }
}

/** The elements of an array in their order; for bytes that the scanner has accepted. */
export function* elementsOf(bytes: Buffer, array: Span): Generator<Span, void, undefined> {
  const notes: StringScanState = { quote: -1, backslash: -1, loneSurrogateAt: -1 };
  let start = skipSpace(bytes, array.start + 1, array.end);
  while (start < array.end && bytes[start] !== 0x5d) {
    const end = skipValue(bytes, start, array.end, notes);
    yield { start, end };
    start = skipSpace(bytes, skipSpace(bytes, end, array.end) + 1, array.end);
  }
}

/** The offset behind the value that begins at `from`: brackets are counted, strings are stepped over. */
function skipValue(bytes: Buffer, from: number, end: number, notes: StringScanState): number {
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

function skipScalar(bytes: Buffer, from: number, end: number): number {
  let i = from;
  while (i < end && !endsScalar(bytes[i] ?? 0)) i++;
  return i;
}

function endsScalar(c: number): boolean {
  return c === 0x2c || c === 0x7d || c === 0x5d || c <= 0x20;
}
