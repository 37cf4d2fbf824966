import type { MethodMessage } from "../envelope.ts";
import { argumentAt, type HeaderParameter, headerTextOf } from "./header-parameters.ts";
import { memberString, memberType, memberValue } from "../json/read.ts";
import type { RequestMessage } from "../message.ts";
import { methodFacts } from "../methods.ts";

/** Finds a received header by its lower-case name; lines of one name come joined by commas, as HTTP joins them. */
export type HeaderLookup = (name: string) => string | undefined;

/** A header line to send. */
export type HeaderLine = readonly [name: string, value: string];

/** The headers that repeat parts of a body, or why the body cannot be repeated in headers. */
export type MirroredHeaders =
  | { readonly ok: true; readonly headers: readonly HeaderLine[] }
  | { readonly ok: false; readonly header: string; readonly message: string };

/** A header that does not say what the body says. */
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

/** The version that a request POST names in its header, without surrounding blanks. */
export function revisionHeaderOf(header: HeaderLookup): string | undefined {
  return trimmed(header, "mcp-protocol-version");
}

/** The method that a POST names in `Mcp-Method`; compared as it is, case included. */
export function methodHeaderOf(header: HeaderLookup): string | undefined {
  return trimmed(header, "mcp-method");
}

/**
 * Computes the headers that repeat a modern message: the version, the method, the name of its target and the
 * arguments that the tool's schema marks (MCP 2026-07-28, Streamable HTTP). Called again after a change of the body,
 * it gives the headers that fit the changed one. The version is the body's, else the one given.
 */
export function mirroredHeadersOf(
  message: MethodMessage,
  revision: string,
  parameters: readonly HeaderParameter[] = [],
): MirroredHeaders {
  // The method has no encoded form, and one that HTTP cannot carry must not reach a header line.
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
 * Puts newly computed mirrored headers in the place of the received ones. Headers of the given stale parameters go,
 * those that no schema of ours explains stay, as intermediaries must forward them (MCP 2026-07-28, Streamable HTTP).
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

/** Compares `Mcp-Name` with the body of a request whose method has that header; undefined when they agree. */
export function checkNameHeader(message: RequestMessage, header: HeaderLookup): HeaderMismatch | undefined {
  if (methodFacts(message.method)?.nameSource === undefined) return undefined;
  const expected = bodyNameOf(message);
  const received = trimmed(header, "mcp-name");
  if (received === undefined) {
    // A body without a usable name is for the check of parameters to refuse.
    return expected === undefined ? undefined : mismatch(nameHeader, "missing");
  }
  const decoded = decodeHeaderValue(received);
  if (decoded === undefined) return mismatch(nameHeader, "malformed");
  return decoded === expected ? undefined : mismatch(nameHeader, "different");
}

/** Compares `Mcp-Param-*` with the arguments of a tool call; undefined when they agree. */
export function checkParameterHeaders(
  message: RequestMessage,
  parameters: readonly HeaderParameter[],
  header: HeaderLookup,
): HeaderMismatch | undefined {
  if (parameters.length === 0) return undefined;
  const values = argumentsOf(message);
  for (const parameter of parameters) {
    const value = argumentAt(values, parameter.path);
    const text = headerTextOf(value);
    // Null, absent or without a header form: no header is expected, and one that is there means nothing.
    if (text === undefined) continue;
    const received = trimmed(header, parameter.header.toLowerCase());
    if (received === undefined) return mismatch(parameter.header, "missing");
    const decoded = decodeHeaderValue(received);
    if (decoded === undefined) return mismatch(parameter.header, "malformed");
    const isEqual = decoded === text || (parameter.type === "integer" && isSameInteger(decoded, value));
    if (!isEqual) return mismatch(parameter.header, "different");
  }
  return undefined;
}

/** The value that `Mcp-Name` repeats; undefined where the method has no such header or the body no such string. */
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

/** Integers are compared as numbers, so that `42.0` equals `42`; beyond 2^53 nothing is equal but the same text. */
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

function mismatch(header: string, problem: HeaderMismatch["problem"]): HeaderMismatch {
  const messages = {
    missing: `the header ${header} is missing`,
    malformed: `the header ${header} holds no valid Base64 of UTF-8 between its sentinels`,
    different: `the header ${header} and the body differ`,
  };
  return { header, problem, message: messages[problem] };
}

function inexpressible(header: string): MirroredHeaders {
  return { ok: false, header, message: `the body holds a value that the header ${header} cannot carry` };
}

const prefix = "=?base64?";
const suffix = "?=";
const canonicalBase64 = /^(?:[A-Za-z0-9+/]{4})*(?:[A-Za-z0-9+/]{2}==|[A-Za-z0-9+/]{3}=)?$/;
/** Visible ASCII, with blanks and tabs inside only (RFC 9110 section 5.5 without obs-text). */
const plainValue = /^[\x21-\x7e](?:[\t\x20-\x7e]*[\x21-\x7e])?$/;
const strictUtf8 = new TextDecoder("utf-8", { fatal: true, ignoreBOM: true });

/**
 * Writes a text as a value of `Mcp-Name` or `Mcp-Param-*`: as it is where HTTP can carry it, else as Base64 between
 * the sentinels (MCP 2026-07-28, Streamable HTTP, "Value Encoding"). Undefined for half surrogates, which have no
 * UTF-8 form. The empty text is written with the sentinels, because some HTTP software drops empty headers.
 */
export function encodeHeaderValue(text: string): string | undefined {
  if (!text.isWellFormed()) return undefined;
  const isSentinel = text.startsWith(prefix) && text.endsWith(suffix);
  if (plainValue.test(text) && !isSentinel) return text;
  return `${prefix}${Buffer.from(text).toString("base64")}${suffix}`;
}

/**
 * Reads such a value back: the text, or undefined for sentinels around something that is not canonical, padded
 * Base64 of UTF-8. A value without both sentinels, in exactly this spelling, is itself the text.
 */
export function decodeHeaderValue(value: string): string | undefined {
  const isEncoded = value.length >= prefix.length + suffix.length && value.startsWith(prefix) && value.endsWith(suffix);
  if (!isEncoded) return value;
  const base64 = value.slice(prefix.length, -suffix.length);
  if (!canonicalBase64.test(base64)) return undefined;
  const bytes = Buffer.from(base64, "base64");
  // Stray bits behind the last byte would give one text two spellings (RFC 4648 section 3.5).
  if (bytes.toString("base64") !== base64) return undefined;
  try {
    return strictUtf8.decode(bytes);
  } catch {
    // Not UTF-8: malformed, which is what undefined says.
    return undefined;
  }
}

/** A header value without the blanks and tabs around it, which mean nothing in HTTP (RFC 9110 section 5.5). */
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
