import { argumentAt, type HeaderParameter, headerTextOf } from "./header-parameters.ts";
import { memberString, memberType, memberValue } from "../json/read.ts";
import type { MethodMessage, RequestMessage } from "../message.ts";
import { methodFacts } from "../methods.ts";

/** Finds a received header by its lower-case name; several lines of one name are joined by commas. */
export type HeaderLookup = (name: string) => string | undefined;

/** A header line to send. */
export type HeaderLine = readonly [name: string, value: string];

/** The headers that mirror parts of a body, or the header that cannot carry its value. */
export type MirroredHeaders =
  | { readonly ok: true; readonly headers: readonly HeaderLine[] }
  | { readonly ok: false; readonly header: string; readonly message: string };

/** A header that differs from the body. */
export interface HeaderMismatch {
  readonly header: string;
  readonly problem: "missing" | "malformed" | "different";
  readonly message: string;
}

const methodHeader = "Mcp-Method";
const nameHeader = "Mcp-Name";
const revisionHeader = "MCP-Protocol-Version";
const standardHeaders: ReadonlySet<string> = new Set(
  [revisionHeader, methodHeader, nameHeader].map((name) => name.toLowerCase()),
);
const revisionKey = "params._meta.io.modelcontextprotocol/protocolVersion";
const visibleAscii = /^[\x21-\x7e]+$/;
const decimal = /^-?\d+(?:\.\d+)?$/;

/** The value of `MCP-Protocol-Version`. */
export function revisionHeaderOf(header: HeaderLookup): string | undefined {
  return trimmed(header, "mcp-protocol-version");
}

/** The value of `Mcp-Method`, which is case-sensitive. */
export function methodHeaderOf(header: HeaderLookup): string | undefined {
  return trimmed(header, "mcp-method");
}

/**
 * The headers that mirror a modern message: the version, the method, the name of its target and the arguments that
 * the tool's schema marks (MCP 2026-07-28, Streamable HTTP). Call it again after a change of the body. `revision`
 * applies if the body names no version.
 *
 * @example
 * const mirrored = mirroredHeadersOf(message, "2026-07-28");
 * if (mirrored.ok) headers = [...headers, ...mirrored.headers]; // [["Mcp-Method", "tools/call"], …]
 */
export function mirroredHeadersOf(
  message: MethodMessage,
  revision: string,
  parameters: readonly HeaderParameter[] = [],
): MirroredHeaders {
  // The method has no encoded form, so one that HTTP cannot carry must not reach a header.
  if (!visibleAscii.test(message.method)) return inexpressible(methodHeader);
  const headers: HeaderLine[] = [
    [revisionHeader, memberString(message, revisionKey) ?? revision],
    [methodHeader, message.method],
  ];
  const name = bodyNameOf(message);
  if (name !== undefined) {
    const value = encodeHeaderValue(name);
    if (value === undefined) return inexpressible(nameHeader);
    headers.push([nameHeader, value]);
  }
  for (const [header, text] of parameterTexts(message, parameters)) {
    const value = encodeHeaderValue(text);
    if (value === undefined) return inexpressible(header);
    headers.push([header, value]);
  }
  return { ok: true, headers };
}

/**
 * Replaces received mirrored headers by newly computed ones. Headers of `stale` parameters are removed; unknown
 * `Mcp-Param-*` headers stay, because intermediaries must forward them (MCP 2026-07-28, Streamable HTTP).
 */
export function replaceMirroredHeaders(
  received: Iterable<HeaderLine>,
  computed: readonly HeaderLine[],
  stale: readonly HeaderParameter[] = [],
): readonly HeaderLine[] {
  const replaced = new Set([...computed, ...stale.map(({ header }) => [header] as const)].map(foldedName));
  const kept = [...received].filter((line) => {
    const name = foldedName(line);
    return !standardHeaders.has(name) && !replaced.has(name);
  });
  return [...kept, ...computed];
}

/** Compares `Mcp-Name` with the body; undefined if they agree or the method has no such header. */
export function checkNameHeader(message: RequestMessage, header: HeaderLookup): HeaderMismatch | undefined {
  if (methodFacts(message.method)?.nameSource === undefined) return undefined;
  const expected = bodyNameOf(message);
  const received = trimmed(header, "mcp-name");
  if (received === undefined) {
    // The check of parameters rejects a body without a usable name.
    return expected === undefined ? undefined : toHeaderMismatch(nameHeader, "missing");
  }
  const decoded = decodeHeaderValue(received);
  if (decoded === undefined) return toHeaderMismatch(nameHeader, "malformed");
  return decoded === expected ? undefined : toHeaderMismatch(nameHeader, "different");
}

/**
 * Compares `Mcp-Param-*` with the arguments of a tool call; undefined if they agree. For an argument that is absent, null
 * or not expressible in a header, none is expected; `surplus` says what becomes of one that is sent anyway.
 */
export function checkParameterHeaders(
  message: RequestMessage,
  parameters: readonly HeaderParameter[],
  header: HeaderLookup,
  surplus: "ignored" | "refused" = "ignored",
): HeaderMismatch | undefined {
  if (parameters.length === 0) return undefined;
  const values = argumentsOf(message);
  for (const parameter of parameters) {
    const value = argumentAt(values, parameter.path);
    const text = headerTextOf(value);
    if (text === undefined && surplus === "ignored") continue;
    const received = trimmed(header, parameter.header.toLowerCase());
    if (text === undefined) {
      if (received === undefined) continue;
      return toHeaderMismatch(parameter.header, "different");
    }
    if (received === undefined) return toHeaderMismatch(parameter.header, "missing");
    const decoded = decodeHeaderValue(received);
    if (decoded === undefined) return toHeaderMismatch(parameter.header, "malformed");
    const isEqual = decoded === text || (parameter.type === "integer" && isSameInteger(decoded, value));
    if (!isEqual) return toHeaderMismatch(parameter.header, "different");
  }
  return undefined;
}

/** The value that `Mcp-Name` mirrors; undefined if the method has no such header or the body no such string. */
function bodyNameOf(message: MethodMessage): string | undefined {
  const source = methodFacts(message.method)?.nameSource;
  return source === undefined ? undefined : memberString(message, source);
}

function argumentsOf(message: MethodMessage): unknown {
  return memberType(message, "params.arguments") === "object" ? memberValue(message, "params.arguments") : {};
}

function parameterTexts(message: MethodMessage, parameters: readonly HeaderParameter[]): HeaderLine[] {
  if (parameters.length === 0 || methodFacts(message.method)?.target !== "tool") return [];
  const values = argumentsOf(message);
  return parameters.flatMap(({ header, path }) => {
    const text = headerTextOf(argumentAt(values, path));
    return text === undefined ? [] : [[header, text] as const];
  });
}

/** Compares integers as numbers, so that `42.0` equals `42`; beyond 2^53 only the same text is equal. */
function isSameInteger(text: string, value: unknown): boolean {
  return decimal.test(text) && Number.isSafeInteger(Number(text)) && Number(text) === value;
}

function trimmed(header: HeaderLookup, name: string): string | undefined {
  const value = header(name);
  return value === undefined ? undefined : trimHeaderValue(value);
}

function foldedName([name]: readonly [string, ...unknown[]]): string {
  return name.toLowerCase();
}

export function toHeaderMismatch(header: string, problem: HeaderMismatch["problem"]): HeaderMismatch {
  const messages = {
    missing: `the header ${header} is missing`,
    malformed: `the header ${header} is not valid Base64 of UTF-8`,
    different: `the header ${header} and the body differ`,
  };
  return { header, problem, message: messages[problem] };
}

function inexpressible(header: string): MirroredHeaders {
  return { ok: false, header, message: `the header ${header} cannot carry the value in the body` };
}

const prefix = "=?base64?";
const suffix = "?=";
const canonicalBase64 = /^(?:[A-Za-z0-9+/]{4})*(?:[A-Za-z0-9+/]{2}==|[A-Za-z0-9+/]{3}=)?$/;
/** Visible ASCII, with spaces and tabs only inside (RFC 9110 section 5.5 without obs-text). */
const plainValue = /^[\x21-\x7e](?:[\t\x20-\x7e]*[\x21-\x7e])?$/;
const strictUtf8 = new TextDecoder("utf-8", { fatal: true, ignoreBOM: true });

/**
 * Writes a value of `Mcp-Name` or `Mcp-Param-*`: unchanged if HTTP can carry it, otherwise as Base64 between
 * sentinels (MCP 2026-07-28, Streamable HTTP, "Value Encoding"). Undefined for lone surrogates, which UTF-8 cannot
 * encode. The empty text is encoded too, because some HTTP software drops empty headers.
 */
export function encodeHeaderValue(text: string): string | undefined {
  if (!text.isWellFormed()) return undefined;
  const isSentinel = text.startsWith(prefix) && text.endsWith(suffix);
  if (plainValue.test(text) && !isSentinel) return text;
  return `${prefix}${Buffer.from(text).toString("base64")}${suffix}`;
}

/**
 * Reads a value of `Mcp-Name` or `Mcp-Param-*`. A value without both sentinels is the text itself; undefined if the
 * sentinels enclose anything but canonical, padded Base64 of UTF-8.
 */
export function decodeHeaderValue(value: string): string | undefined {
  const isEncoded = value.length >= prefix.length + suffix.length && value.startsWith(prefix) && value.endsWith(suffix);
  if (!isEncoded) return value;
  const base64 = value.slice(prefix.length, -suffix.length);
  if (!canonicalBase64.test(base64)) return undefined;
  const bytes = Buffer.from(base64, "base64");
  // Non-zero padding bits would give one text two encodings (RFC 4648 section 3.5).
  if (bytes.toString("base64") !== base64) return undefined;
  try {
    return strictUtf8.decode(bytes);
  } catch {
    // Not UTF-8, so the value is malformed.
    return undefined;
  }
}

/** Trims spaces and tabs, which are not part of a header value (RFC 9110 section 5.5). */
export function trimHeaderValue(value: string): string {
  let start = 0;
  let end = value.length;
  while (start < end && isBlank(value.charCodeAt(start))) start++;
  while (end > start && isBlank(value.charCodeAt(end - 1))) end--;
  return value.slice(start, end);
}

function isBlank(code: number): boolean {
  return code === 0x20 || code === 0x09;
}
