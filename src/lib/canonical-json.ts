/**
 * JSON text in its one canonical form (RFC 8785): members sorted, no blanks. Equal values have equal texts. Numbers
 * that a double cannot hold keep their digits, so that big integers stay distinct.
 */
export function canonicalText(value: unknown): string {
  if (typeof value === "string") return JSON.stringify(value);
  if (typeof value !== "object" || value === null) return JSON.stringify(value) ?? "null";
  if (value instanceof ExactNumber) return value.digits;
  if (Array.isArray(value)) return `[${value.map(canonicalText).join(",")}]`;
  const members = Object.entries(value)
    .filter(([, member]) => member !== undefined)
    // RFC 8785, section 3.2.3: by UTF-16 code units, which is how JavaScript compares texts.
    .toSorted(([a], [b]) => (a < b ? -1 : a > b ? 1 : 0));
  return `{${members.map(([name, member]) => `${JSON.stringify(name)}:${canonicalText(member)}`).join(",")}}`;
}

/** A number with more digits than a double keeps. */
export class ExactNumber {
  readonly digits: string;

  constructor(digits: string) {
    this.digits = digits;
  }

  toJSON(): string {
    return this.digits;
  }
}

const longDigits = /\d{16}/u;

/** The value of JSON text, with numbers that a double cannot hold kept exact; undefined if the text is not JSON. */
export function parseExactJson(text: string): unknown {
  try {
    return longDigits.test(text) ? JSON.parse(text, exactNumberReviver) : JSON.parse(text);
  } catch {
    return undefined;
  }
}

function exactNumberReviver(_name: string, value: unknown, context?: { readonly source?: string }): unknown {
  const source = context?.source;
  if (typeof value !== "number" || source === undefined || !/^-?\d+$/u.test(source)) return value;
  return Number.isSafeInteger(value) ? value : new ExactNumber(source);
}

/** The third argument of a `JSON.parse` reviver, and `JSON.rawJSON`, which TypeScript does not declare yet. */
interface SourceTextJson {
  parse(
    text: string,
    reviver: (key: string, value: unknown, context: { readonly source?: string }) => unknown,
  ): unknown;
  rawJSON(text: string): object;
}

/**
 * Parses JSON to write it again with all its digits: a number that JavaScript would write differently, such as
 * 12345678901234567890 or 1.0, becomes an opaque object that `JSON.stringify` writes as it came.
 */
export function parseVerbatimJson(text: string): unknown {
  const json = JSON as unknown as SourceTextJson;
  return json.parse(text, (_key, value, { source }) =>
    typeof value === "number" && source !== undefined && source !== String(value) ? json.rawJSON(source) : value,
  );
}
