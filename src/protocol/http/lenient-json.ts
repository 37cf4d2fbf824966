import { isUtf8 } from "node:buffer";

/** The values of the headers that say how a body is written. */
export interface BodyHeaders {
  readonly contentType?: readonly string[] | undefined;
  readonly contentEncoding?: readonly string[] | undefined;
}

/**
 * Why a body may mean something to a server that we cannot read from its bytes: a content coding, several content types,
 * or a charset other than UTF-8. Undefined if its bytes are all there is to it.
 */
export function hiddenMeaning(body: Buffer, headers: BodyHeaders): string | undefined {
  const { contentType: types = [], contentEncoding: codings = [] } = headers;
  if (codings.some((coding) => coding.trim() !== "")) return "content codings are not accepted";
  if (types.length > 1) return "several content types are not accepted";
  const hasCharset = types.some((type) => /charset\s*\*?\d*\*?\s*=/iu.test(type));
  if (!hasCharset || types.every(isUtf8Type)) return undefined;
  return isJsonType(types) || couldBeJson(body) ? "charsets other than UTF-8 are not accepted" : undefined;
}

/** Whether the only charset that a content type names is UTF-8. */
function isUtf8Type(type: string): boolean {
  const charsets = [...type.matchAll(/charset[^=;]*=[^;]*/giu)].map(([parameter]) => parameter);
  return charsets.every((parameter) => /^charset="?utf-?8"?\s*$/iu.test(parameter));
}

/**
 * Whether a server may parse a body of this content type as JSON without looking at it: every type that has to do with
 * JSON, and what is no proper type. `application/json` counts anywhere in the value, because servers search for it.
 */
function isJsonType(types: readonly string[]): boolean {
  const [type = ""] = types;
  return (
    /json|javascript|\*/iu.test(type) ||
    (type.trim() !== "" && !/^\s*[\w.+!#$&^-]+\/[\w.+!#$&^-]+\s*(?:;|$)/u.test(type))
  );
}

/** Whether a server that is more lenient than RFC 8259 may read JSON in a body that is not JSON. */
export function mayBeReadAsJson(body: Buffer, headers: BodyHeaders): boolean {
  return isJsonType(headers.contentType ?? []) || couldBeJson(body);
}

/** How far to look for the beginning of a value; padding beyond this is no message that anybody sends. */
const lookedAtBytes = 64 * 1024;

/**
 * Byte order marks of UTF-7, UTF-8, UTF-16 and UTF-32, white space of every kind, zero bytes, comments, and the prefix
 * `)]}'` against script inclusion: what lenient parsers skip before a value.
 */
const skipped = /^(?:\+\/v[89+/]-?|[\s\p{Cc}\p{Cf}\p{Z}\uFFFD]|\/\/[^\r\n]*|#[^\r\n]*|\/\*[\s\S]*?\*\/|\)\]\}',?)+/u;

/** Scalars with what separates values in a stream: some servers read the values of a body one after the other. */
const scalars =
  /^(?:(?:null|true|false|NaN|[-+]?Infinity|[-+]?[\d.][\w.+-]*|"(?:[^"\\]|\\.)*"|'(?:[^'\\]|\\.)*')[\s\p{Cc},;]*)+/u;

/** Whether a body begins like a JSON object or array in some encoding, as lenient parsers see it. */
function couldBeJson(body: Buffer): boolean {
  const start = body.subarray(0, lookedAtBytes);
  const decoded = isUtf8(start)
    ? start.toString("utf8")
    : start.toString("latin1").replaceAll(/[\xef\xbb\xbf\xfe\xff]/gu, " ");
  // UTF-16 and UTF-32 of ASCII characters are the characters with zero bytes between them.
  const text = decoded.replaceAll("\0", "").replace(skipped, "");
  if (text === "") return body.length > lookedAtBytes;
  return /^(?:[{[(]|\+AHs|\+AFs)/u.test(text.replace(scalars, "").replace(skipped, ""));
}
