import { decodeString } from "../../protocol/json/read.ts";
import type { Span } from "../../protocol/json/outline.ts";
import { skipSpace } from "../../protocol/json/scan.ts";
import { scanString, type StringScanState } from "../../protocol/json/strings.ts";

/**
 * A JSON value as CEL sees it. Objects are maps, so that no name in them can be mistaken for one of JavaScript's own;
 * numbers without fraction and exponent are `int` with all their digits, others are `double`.
 */
export type CelValue =
  | null
  | boolean
  | string
  | bigint
  | number
  | InexactNumber
  | readonly CelValue[]
  | ReadonlyMap<string, CelValue>;

/** A JSON object as CEL sees it. */
export type CelMap = ReadonlyMap<string, CelValue>;

/**
 * A number that CEL cannot hold exactly. It stands in its place so that only a rule that looks at it fails: CEL has
 * no type for it.
 */
export class InexactNumber {
  readonly text: string;

  constructor(text: string) {
    this.text = text;
  }
}

/** Objects without members, or without any that somebody looks for. */
export const noMembers: ReadonlyMap<string, CelValue> = new Map();

/** Digits and sign of the longest `int`; only such texts are worth the work of reading them. */
const longestInt = 20;
const leastInt = -(2n ** 63n);
const mostInt = 2n ** 63n - 1n;

/** The value of a JSON number: exact, or a stand-in for one that would have to be rounded to more than a fraction. */
function numberValue(text: string): bigint | number | InexactNumber {
  if (!/[.Ee]/u.test(text)) {
    if (text.length > longestInt) return new InexactNumber(text);
    const integer = BigInt(text);
    return integer >= leastInt && integer <= mostInt ? integer : new InexactNumber(text);
  }
  const value = Number(text);
  return Math.abs(value) <= Number.MAX_SAFE_INTEGER ? value : new InexactNumber(text);
}

/** Builds the value at a span; only for bytes that the scanner has accepted. */
export function readCelValue(bytes: Buffer, span: Span): CelValue {
  return new Reader(bytes, span.end).value(span.start);
}

/** Builds those members of an object that are asked for, all of them unless names are given. */
export function readCelMembers(bytes: Buffer, object: Span, names: NameSet | undefined): ReadonlyMap<string, CelValue> {
  return new Reader(bytes, object.end).members(object.start, names);
}

/** The same for a value that was built by others, such as the claims of a token. */
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

/** The claims of a token as CEL values; cached, for a token is used many times. */
export function claimsValue(claims: Readonly<Record<string, unknown>>): CelMap {
  let value = claimValues.get(claims);
  // An object becomes a map.
  if (value === undefined) claimValues.set(claims, (value = toCelValue(claims) as CelMap));
  return value;
}

/** What CEL gave, as JSON text; undefined where it is nothing that JSON has. */
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

/** Reads once over the bytes; how deep they go was bounded when they were scanned. */
class Reader {
  readonly bytes: Buffer;
  readonly end: number;
  readonly notes: StringScanState = { quote: -1, backslash: -1, loneSurrogateAt: -1 };
  /** Behind what was read last. */
  at = 0;

  constructor(bytes: Buffer, end: number) {
    this.bytes = bytes;
    this.end = end;
  }

  value(from: number): CelValue {
    switch (this.bytes[from]) {
      case 0x7b:
        return this.members(from, undefined);
      case 0x5b:
        return this.elements(from);
      case 0x22:
        return this.text(from);
      case 0x74:
        this.at = from + 4;
        return true;
      case 0x66:
        this.at = from + 5;
        return false;
      case 0x6e:
        this.at = from + 4;
        return null;
      default:
        return numberValue(this.bytes.toString("latin1", from, this.skipScalar(from)));
    }
  }

  members(from: number, names: NameSet | undefined): ReadonlyMap<string, CelValue> {
    let map: Map<string, CelValue> | undefined;
    this.at = this.space(from + 1);
    while (this.bytes[this.at] === 0x22) {
      const name = names === undefined ? this.text(this.at) : this.wanted(this.at, names);
      const start = this.space(this.space(this.at) + 1);
      if (name === undefined) this.skip(start);
      else (map ??= new Map<string, CelValue>()).set(name, this.value(start));
      this.next();
    }
    this.at++;
    return map ?? noMembers;
  }

  /** The name of a member, where it is one of those that are looked for. */
  private wanted(from: number, names: NameSet): string | undefined {
    let at = from + 1;
    while (this.bytes[at] !== 0x22) {
      if (this.bytes[at] === 0x5c) {
        const name = this.text(from);
        return names.names.has(name) ? name : undefined;
      }
      at++;
    }
    this.at = at + 1;
    return names.find(this.bytes, from + 1, at);
  }

  private elements(from: number): readonly CelValue[] {
    const list: CelValue[] = [];
    this.at = this.space(from + 1);
    while (this.bytes[this.at] !== 0x5d) {
      list.push(this.value(this.at));
      this.next();
    }
    this.at++;
    return list;
  }

  private text(from: number): string {
    this.at = scanString(this.bytes, from + 1, this.end, this.notes);
    return decodeString(this.bytes, from, this.at);
  }

  /** To the next member or element, or the closing bracket. */
  private next(): void {
    this.at = this.space(this.at);
    if (this.bytes[this.at] === 0x2c) this.at = this.space(this.at + 1);
  }

  private space(from: number): number {
    return skipSpace(this.bytes, from, this.end);
  }

  private skip(from: number): void {
    let depth = 0;
    this.at = from;
    do {
      const byte = this.bytes[this.at] ?? 0;
      if (byte === 0x22) this.at = scanString(this.bytes, this.at + 1, this.end, this.notes);
      else if (byte === 0x7b || byte === 0x5b) {
        depth++;
        this.at++;
      } else if (byte === 0x7d || byte === 0x5d) {
        depth--;
        this.at++;
      } else if (depth === 0) this.skipScalar(this.at);
      else this.at++;
    } while (depth > 0);
  }

  private skipScalar(from: number): number {
    let at = from;
    while (at < this.end && !endsScalar(this.bytes[at] ?? 0)) at++;
    this.at = at;
    return at;
  }
}

function endsScalar(byte: number): boolean {
  return byte === 0x2c || byte === 0x7d || byte === 0x5d || byte <= 0x20;
}

/** Names of members that are looked for in bytes; most members are none of them, and need not be decoded to know. */
export class NameSet {
  readonly names: ReadonlySet<string>;
  /** By the number of bytes. */
  readonly #spellings: (readonly Spelling[] | undefined)[] = [];

  constructor(names: Iterable<string>) {
    this.names = new Set(names);
    for (const name of this.names) {
      const bytes = Buffer.from(name);
      this.#spellings[bytes.length] = [...(this.#spellings[bytes.length] ?? []), { name, bytes }];
    }
  }

  /** The name that stands between two offsets without any escapes; undefined where it is another one. */
  find(bytes: Uint8Array, start: number, end: number): string | undefined {
    const candidates = this.#spellings[end - start];
    if (candidates === undefined) return undefined;
    for (const { name, bytes: spelling } of candidates) {
      let index = 0;
      while (index < spelling.length && spelling[index] === bytes[start + index]) index++;
      if (index === spelling.length) return name;
    }
    return undefined;
  }
}

interface Spelling {
  readonly name: string;
  readonly bytes: Uint8Array;
}
