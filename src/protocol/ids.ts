import { decodeString, typeAt } from "./json/read.ts";
import type { RequestId } from "./message.ts";

/** What stands where an id should be: a usable id, a fractional one, or why it cannot be one. */
export type ParsedId =
  | { readonly ok: true; readonly id: RequestId; readonly fractional: boolean }
  | { readonly ok: false; readonly reason: "id.null" | "id.type" };

const idNull: ParsedId = { ok: false, reason: "id.null" };
const idType: ParsedId = { ok: false, reason: "id.type" };

/** Reads the id (or progress token, which has the same rules) between two offsets. */
export function readId(bytes: Buffer, start: number, end: number): ParsedId {
  const type = typeAt(bytes, start);
  if (type === "string") {
    const value = decodeString(bytes, start, end);
    return {
      ok: true,
      id: { key: `s:${value}`, json: bytes.toString("utf8", start, end) },
      fractional: false,
    };
  }
  if (type !== "number") return type === "null" ? idNull : idType;
  const json = bytes.toString("latin1", start, end);
  const digits = canonicalDigits(json);
  return digits === undefined
    ? idType
    : { ok: true, id: { key: `n:${digits}`, json }, fractional: digits.includes(".") };
}

/** Makes the id for a value that we choose ourselves. */
export function idFrom(value: string | number): RequestId {
  if (typeof value === "string") return { key: `s:${value}`, json: JSON.stringify(value) };
  if (!Number.isSafeInteger(value))
    throw new RangeError(`an id must be a string or a safe integer, not ${value}`);
  return { key: `n:${value}`, json: String(value) };
}

/** The id as a plain value for display; integers that JavaScript cannot hold exactly come as text. */
export function idValue(id: RequestId): string | number {
  if (id.key.startsWith("s:")) return id.key.slice(2);
  const value = Number(id.key.slice(2));
  return Number.isSafeInteger(value) ? value : id.key.slice(2);
}

/** Whether the source text is a run of digits, which is then its own canonical form. */
const plainInteger = /^-?\d+$/;

/**
 * One spelling per number: `1`, `1.0` and `1e0` are the same id to every peer that parses them, while integers beyond
 * 2^53 are told apart by their digits in the source (SC-035). Fractions keep their point; infinities have no form.
 */
function canonicalDigits(json: string): string | undefined {
  if (plainInteger.test(json)) return json === "-0" ? "0" : json;
  const value = Number(json);
  if (!Number.isFinite(value)) return undefined;
  if (Number.isInteger(value)) return BigInt(value).toString();
  const text = String(value);
  return text.includes(".") ? text : `${text}.`;
}
