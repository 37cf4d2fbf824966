import type { Span } from "../../protocol/json/outline.ts";
import { decodeString, skipValue, typeAt } from "../../protocol/json/read.ts";
import { skipSpace } from "../../protocol/json/scan.ts";
import { scanString, type StringScanState } from "../../protocol/json/strings.ts";

/**
 * A JSON value for CEL. Objects are maps, so that no member is mistaken for a property of JavaScript's own; numbers
 * without fraction and exponent are `int` with all their digits, others are `double`.
 */
export type CelValue = null | boolean | string | bigint | number | InexactNumber | readonly CelValue[] | CelMap;

/** A JSON object for CEL. */
export type CelMap = ReadonlyMap<string, CelValue>;

/** A number that CEL cannot represent exactly. CEL has no type for it, so a rule fails if it reads the number. */
export class InexactNumber {
  readonly text: string;

  constructor(text: string) {
    this.text = text;
  }
}

export const emptyMap: CelMap = new Map();

/** Digits and sign of the longest `int`. */
const maxIntLength = 20;
const minInt = -(2n ** 63n);
const maxInt = 2n ** 63n - 1n;

function numberValue(text: string): bigint | number | InexactNumber {
  if (!/[.Ee]/u.test(text)) {
    if (text.length > maxIntLength) return new InexactNumber(text);
    const integer = BigInt(text);
    return integer >= minInt && integer <= maxInt ? integer : new InexactNumber(text);
  }
  const value = Number(text);
  return Math.abs(value) <= Number.MAX_SAFE_INTEGER && isKept(text, value) ? value : new InexactNumber(text);
}

/** A `double` has this many digits at most; longer ones are rounded, and a server with decimals would see the rest. */
const maxDigits = 17;

/** Whether a `double` keeps the digits of a number with fraction or exponent. */
function isKept(text: string, value: number): boolean {
  if (value !== 0 && text.length <= maxDigits) return true;
  const digits = text
    .replace(/[Ee].*$/u, "")
    .replaceAll(/[-.]/gu, "")
    .replace(/^0+/u, "")
    .replace(/0+$/u, "");
  return value === 0 ? digits === "" : digits.length <= maxDigits;
}

/** Reads the value at a span of bytes that the scanner has accepted. */
export function readCelValue(bytes: Buffer, { start, end }: Span): CelValue {
  switch (typeAt(bytes, start)) {
    case "string":
      return decodeString(bytes, start, end);
    case "number":
      return numberValue(bytes.toString("latin1", start, end));
    default:
      checkSize(bytes, start, end);
      return JSON.parse(bytes.toString("utf8", start, end), reviveCelValue) as CelValue;
  }
}

/** Shorter values are read whatever they hold. */
const longestUncounted = 64 * 1024;
/** Reading a value takes about half a microsecond. */
const maxValues = 100_000;

/** Throws if JSON holds more values than rules may read. A string counts as one value, whatever its length. */
function checkSize(bytes: Buffer, start: number, end: number): void {
  if (end - start <= longestUncounted) return;
  const state: StringScanState = { quote: -1, backslash: -1, loneSurrogateAt: -1 };
  let values = 1;
  let at = start;
  while (at < end && values <= maxValues) {
    const byte = bytes[at];
    if (byte === quote) at = scanString(bytes, at + 1, end, state);
    else {
      if (byte === comma || byte === openingBracket || byte === openingBrace) values++;
      at++;
    }
  }
  if (values > maxValues) throw new RangeError("the message is too large for this rule: it has too many values");
}

/** The source text of a number keeps its digits (ECMAScript proposal "JSON.parse source text access"). */
function reviveCelValue(_key: string, value: unknown, context?: { readonly source?: string }): unknown {
  if (typeof value === "number") return numberValue(context?.source ?? String(value));
  if (typeof value !== "object" || value === null || Array.isArray(value)) return value;
  // Numbers have been revived already.
  return value instanceof InexactNumber ? value : new Map(Object.entries(value));
}

/** Reads the named members of an object, or all of them. */
export function readCelMembers(bytes: Buffer, object: Span, names: MemberNames | undefined): CelMap {
  let map: Map<string, CelValue> | undefined;
  const state: StringScanState = { quote: -1, backslash: -1, loneSurrogateAt: -1 };
  const { end } = object;
  if (names === undefined) checkSize(bytes, object.start, end);
  let at = skipSpace(bytes, object.start + 1, end);
  while (bytes[at] === quote) {
    const nameEnd = scanString(bytes, at + 1, end, state);
    const name = names === undefined ? decodeString(bytes, at, nameEnd) : names.find(bytes, at, nameEnd);
    const start = skipSpace(bytes, skipSpace(bytes, nameEnd, end) + 1, end);
    const valueEnd = skipValue(bytes, start, end, state);
    if (name !== undefined) (map ??= new Map()).set(name, readCelValue(bytes, { start, end: valueEnd }));
    at = skipSpace(bytes, skipSpace(bytes, valueEnd, end) + 1, end);
  }
  return map ?? emptyMap;
}

const quote = 0x22;
const backslash = 0x5c;
const comma = 0x2c;
const openingBracket = 0x5b;
const openingBrace = 0x7b;

/** Member names to find in bytes. Needed by bench policy: "ten rules on both phases"; decoding every name costs as much as they do. */
export class MemberNames {
  readonly names: ReadonlySet<string>;
  readonly #spellings: readonly (readonly [string, Buffer])[];

  constructor(names: Iterable<string>) {
    this.names = new Set(names);
    this.#spellings = Array.from(this.names, (name) => [name, Buffer.from(`"${name}"`)]);
  }

  /** The name between two quotes; undefined if it is another one. */
  find(bytes: Buffer, start: number, end: number): string | undefined {
    for (const [name, spelling] of this.#spellings) {
      let length = end - start === spelling.length ? 0 : -1;
      while (length >= 0 && length < spelling.length && spelling[length] === bytes[start + length]) length++;
      if (length === spelling.length) return name;
    }
    for (let at = start; at < end; at++) {
      if (bytes[at] !== backslash) continue;
      const name = decodeString(bytes, start, end);
      return this.names.has(name) ? name : undefined;
    }
    return undefined;
  }
}

/** Converts a JavaScript value, such as the claims of a token. */
export function toCelValue(value: unknown): CelValue {
  if (typeof value === "number") {
    if (Number.isSafeInteger(value)) return BigInt(value);
    return Math.abs(value) <= Number.MAX_SAFE_INTEGER ? value : new InexactNumber(String(value));
  }
  if (typeof value === "string" || typeof value === "boolean" || typeof value === "bigint") return value;
  if (Array.isArray(value)) return value.map(toCelValue);
  if (typeof value !== "object" || value === null) return null;
  return new Map(Object.entries(value).map(([name, inner]) => [name, toCelValue(inner)]));
}

const claimValues = new WeakMap<object, CelMap>();

/** The claims of a token; converted once per token. */
export function claimsValue(claims: Readonly<Record<string, unknown>>): CelMap {
  let value = claimValues.get(claims);
  // An object becomes a map.
  if (value === undefined) claimValues.set(claims, (value = toCelValue(claims) as CelMap));
  return value;
}

/** Formats a CEL value as JSON; undefined if it has no JSON form. */
export function toJson(value: unknown): string | undefined {
  switch (typeof value) {
    case "string":
    case "boolean":
      return JSON.stringify(value);
    case "bigint":
      return String(value);
    case "number":
      return Number.isFinite(value) ? String(value) : undefined;
    case "object":
      return value === null ? "null" : containerJson(value);
    default:
      return undefined;
  }
}

function containerJson(value: object): string | undefined {
  if (Array.isArray(value) || value instanceof Set) {
    const items = [...value].map(toJson);
    return items.includes(undefined) ? undefined : `[${items.join(",")}]`;
  }
  const isPlain = Object.getPrototypeOf(value) === Object.prototype;
  if (!isPlain && !(value instanceof Map)) return undefined;
  const entries: [unknown, unknown][] = value instanceof Map ? [...value] : Object.entries(value);
  const members = entries.map(([name, inner]) => {
    const json = toJson(inner);
    return json === undefined ? undefined : `${JSON.stringify(String(name))}:${json}`;
  });
  return members.includes(undefined) ? undefined : `{${members.join(",")}}`;
}
