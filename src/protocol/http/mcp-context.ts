import { isUtf8 } from "node:buffer";

import { withoutUndefined } from "../../lib/without-undefined.ts";
import { findAmbiguousName, foldName } from "../json/folded-names.ts";
import { type Outline, type Span, spanOf } from "../json/outline.ts";
import {
  decodeString,
  elementsOf,
  type Member,
  membersOf,
  memberSource,
  memberString,
  memberType,
  type ScannedJson,
  typeAt,
} from "../json/read.ts";
import { scan, skipSpace } from "../json/scan.ts";
import { errorResponse, type ErrorResponse, readId, type RequestId } from "../message.ts";

/** The methods that a policy decision point is told about; all others are ordinary HTTP traffic to it. */
export const recognizedMethods = [
  "tools/call",
  "tools/list",
  "resources/read",
  "resources/list",
  "prompts/get",
  "prompts/list",
  "initialize",
] as const;
/** One of the recognized methods. */
export type RecognizedMethod = (typeof recognizedMethods)[number];

/** What a policy decision point is told about an MCP request. */
export interface McpContext {
  readonly method: RecognizedMethod;
  /** The id as in the body, with its JSON type; absent if the request has none. */
  readonly id?: { readonly json: string; readonly type: "string" | "number" | "null" };
  readonly toolName?: string;
  /** The source text, with its digits, order and duplicates. */
  readonly toolArguments?: string;
  readonly resourceUri?: string;
  readonly promptName?: string;
}

/** The MCP context of a body, none, or the error response to a body that has two meanings. */
export type ParsedMcpContext =
  | { readonly kind: "mcp"; readonly context: McpContext }
  | { readonly kind: "none" }
  | { readonly kind: "ambiguous"; readonly response: ErrorResponse };

/** What to read in a body, and what its headers say about it. */
export interface McpContextOptions extends BodyHeaders {
  readonly enableMcp: boolean;
  /** Whether to refuse a body that is not strictly MCP, but that a lenient server could read as MCP. */
  readonly nonMcpJson: "refuse" | "allow";
}

const none: ParsedMcpContext = { kind: "none" };

/**
 * Reads the MCP context of an HTTP body. It is more lenient than `parse`, because the body may not be MCP at all:
 * anything but JSON-RPC 2.0 with a recognized method has no context. Only bodies that policy and server could
 * understand differently are errors: batches, duplicate members and, with `refuse`, whatever common servers read and
 * this scanner does not (a byte order mark, other encodings, content codings, JSON5, names in another case), and names
 * that stand twice in any object of a request, arguments included.
 */
export function mcpContextOf(body: Buffer | string, options: McpContextOptions): ParsedMcpContext {
  if (!options.enableMcp || body.length === 0) return none;
  const bytes = typeof body === "string" ? Buffer.from(body) : body;
  const isStrict = options.nonMcpJson === "refuse";
  const hidden = isStrict ? hiddenMeaning(bytes, options) : undefined;
  if (hidden !== undefined) return ambiguous(hidden);
  const outline = scanBody(bytes);
  if (outline === undefined)
    return isStrict && mayBeReadAsJson(bytes, options) ? ambiguous("the body is not valid JSON in UTF-8") : none;
  const type = typeAt(bytes, outline.start);
  if (type === "array") return hasRequest(bytes, outline, isStrict) ? ambiguous("batches are not accepted") : none;
  return type === "object" ? readObject({ bytes, outline }, isStrict) : none;
}

/** Undefined if the bytes are not exactly one JSON value in UTF-8. */
function scanBody(bytes: Buffer): Outline | undefined {
  if (!isUtf8(bytes)) return undefined;
  // No depth limit: ignoring deep nesting would be a way around the policy, and the scanner does not recurse.
  const outline = scan(bytes, 0, Number.MAX_SAFE_INTEGER);
  return outline.ok && skipSpace(bytes, outline.end, bytes.length) === bytes.length ? outline : undefined;
}

function readObject(source: ScannedJson & { readonly outline: Outline }, isStrict: boolean): ParsedMcpContext {
  const { bytes, outline } = source;
  if (outline.duplicateAt >= 0) {
    const duplicate = duplicateMember(bytes, outline);
    if (duplicate !== undefined) return ambiguous(`duplicate member "${duplicate}"`, idOf(source));
  }
  const problem = isStrict ? lenientReading(source) : undefined;
  if (problem !== undefined) return ambiguous(problem, idOf(source));
  if (memberString(source, "jsonrpc") !== "2.0") return none;
  const method = recognized(memberString(source, "method"));
  if (method === undefined) return none;
  const twin = isStrict ? findAmbiguousName(bytes, outline) : undefined;
  if (twin !== undefined)
    return ambiguous(
      twin.problem === "prototype"
        ? `member "${twin.name}" adds members to the object that it is in`
        : `member "${twin.name}" occurs twice, in different letter case`,
      idOf(source),
    );
  return { kind: "mcp", context: contextOf(source, method) };
}

function recognized(name: string | undefined): RecognizedMethod | undefined {
  return recognizedMethods.find((candidate) => candidate === name);
}

/** Why a lenient server could read another MCP request in an object than we do; undefined if none could. */
function lenientReading({ bytes, outline }: { readonly bytes: Buffer; readonly outline: Outline }): string | undefined {
  const { methods, variant, isVersionTwo: hasVersion } = readLeniently(bytes, outline);
  const [method] = methods;
  if (method === undefined) return undefined;
  if (variant !== undefined) return `member "${variant}" is not written as in MCP`;
  if (outline.loneSurrogateInName) return "a name contains half of a surrogate pair";
  // Some servers do not look at the version at all.
  return hasVersion ? undefined : 'a request of MCP without "jsonrpc":"2.0"';
}

/** An object as a server reads it for which neither letter case nor the version counts. */
function readLeniently(bytes: Buffer, object: Span, isPrototype = false) {
  const methods: RecognizedMethod[] = [];
  let variant: string | undefined;
  let params: Span | undefined;
  let isVersionTwo = false;
  for (const { name, value } of membersOf(bytes, object)) {
    if (name === prototypeName && bytes[value.start] === 0x7b) {
      // A server that copies members into another object gets what is in here as if it were beside it.
      variant ??= name;
      if (!isPrototype) methods.push(...readLeniently(bytes, value, true).methods);
      continue;
    }
    const plain = plainName(name, envelopeNames);
    if (plain === undefined) continue;
    if (plain !== name) variant ??= name;
    if (plain === "jsonrpc") isVersionTwo ||= name === plain && stringAt(bytes, value) === "2.0";
    const method = plain === "method" ? recognized(coercedString(bytes, value)) : undefined;
    if (method !== undefined) {
      methods.push(method);
      if (stringAt(bytes, value) !== method) variant ??= name;
    }
    if (plain === "params" && bytes[value.start] === 0x7b) params = value;
  }
  const names = new Set(methods.flatMap((method) => paramsOf[method] ?? []));
  if (params !== undefined && names.size > 0) variant ??= variantParam(bytes, params, names);
  return { methods, variant, isVersionTwo };
}

/** A member of `params` that is not spelled as MCP spells it, or is a list that some servers read as its text. */
function variantParam(bytes: Buffer, params: Span, names: ReadonlySet<string>): string | undefined {
  for (const { name, value } of membersOf(bytes, params)) {
    if (name === prototypeName || (plainName(name, names) ?? name) !== name) return name;
    const isList = names.has(name) && name !== "arguments" && bytes[value.start] === 0x5b;
    if (isList && coercedString(bytes, value) !== undefined) return name;
  }
  return undefined;
}

/** The text of `["a"]` and `[["a"]]`: without looking at types, JavaScript takes these for the key `a` of an object. */
function coercedString(bytes: Buffer, value: Span): string | undefined {
  if (bytes[value.start] !== 0x5b) return stringAt(bytes, value);
  const [, text] = /^[[\s]+("(?:[^"\\]|\\.)*")[\]\s]+$/u.exec(bytes.toString("utf8", value.start, value.end)) ?? [];
  return text === undefined ? undefined : String(JSON.parse(text));
}

/** The member that is an object's prototype once a program assigns it. */
const prototypeName = "__proto__";

const envelopeNames: ReadonlySet<string> = new Set(["jsonrpc", "id", "method", "params"]);

/** The params that decide what a request does; all but `arguments` are strings. */
const paramsOf: Readonly<Partial<Record<RecognizedMethod, readonly string[]>>> = {
  "tools/call": ["name", "arguments"],
  "resources/read": ["uri"],
  "prompts/get": ["name", "arguments"],
};

/** The one of the names that a lenient reader takes this name for: letter case, hyphens and underscores do not count. */
function plainName(name: string, names: ReadonlySet<string>): string | undefined {
  if (names.has(name)) return name;
  const plain = foldName(name.normalize("NFKC").replaceAll(/[\s_\p{Cf}-]/gu, "")).toLowerCase();
  return names.has(plain) ? plain : undefined;
}

function stringAt(bytes: Buffer, { start, end }: Span): string | undefined {
  return bytes[start] === 0x22 ? decodeString(bytes, start, end) : undefined;
}

function contextOf(source: ScannedJson, method: RecognizedMethod): McpContext {
  const isCall = method === "tools/call";
  return {
    method,
    ...withoutUndefined({
      id: idText(source),
      toolName: isCall ? memberString(source, "params.name") : undefined,
      toolArguments: isCall ? memberSource(source, "params.arguments") : undefined,
      resourceUri: method === "resources/read" ? memberString(source, "params.uri") : undefined,
      promptName: method === "prompts/get" ? memberString(source, "params.name") : undefined,
    }),
  };
}

function idText(source: ScannedJson): McpContext["id"] {
  const type = memberType(source, "id");
  const json = memberSource(source, "id");
  if (json === undefined || (type !== "string" && type !== "number" && type !== "null")) return undefined;
  return { json, type };
}

/** The id for the error response, if it is unambiguous. */
function idOf(source: ScannedJson & { readonly outline: Outline }): RequestId | undefined {
  const span = spanOf(source.outline, "id");
  if (span === undefined || source.outline.duplicateId) return undefined;
  const parsed = readId(source.bytes, span.start, span.end);
  return parsed.ok && !parsed.fractional ? parsed.id : undefined;
}

/** The members that decide what a request does. */
const decidingMembers: ReadonlySet<string> = new Set(["jsonrpc", "method", "params"]);
const decidingParams: ReadonlySet<string> = new Set(["name", "uri", "arguments"]);

/** The first duplicate of a deciding member, in the message or its params. */
function duplicateMember(bytes: Buffer, object: Span): string | undefined {
  const members = [...membersOf(bytes, object)];
  // The server may read any of several versions.
  const isJsonRpc = members.some(({ name, value }) => name === "jsonrpc" && stringAt(bytes, value) === "2.0");
  if (!isJsonRpc) return undefined;
  const params = members.filter(({ name, value }) => name === "params" && bytes[value.start] === 0x7b);
  return (
    firstRepeated(members, decidingMembers) ??
    params.map(({ value }) => firstRepeated(membersOf(bytes, value), decidingParams)).find((name) => name !== undefined)
  );
}

/** The first of the names that occurs a second time. */
function firstRepeated(members: Iterable<Member>, names: ReadonlySet<string>): string | undefined {
  const seen = new Set<string>();
  for (const { name } of members) {
    if (names.has(name) && seen.has(name)) return name;
    seen.add(name);
  }
  return undefined;
}

function hasRequest(bytes: Buffer, array: Span, isStrict: boolean): boolean {
  for (const element of elementsOf(bytes, array)) {
    if (bytes[element.start] !== 0x7b) continue;
    for (const { name } of membersOf(bytes, element)) if (name === "jsonrpc") return true;
    if (isStrict && readLeniently(bytes, element).methods.length > 0) return true;
  }
  return false;
}

function ambiguous(message: string, id?: RequestId): ParsedMcpContext {
  return { kind: "ambiguous", response: errorResponse("invalid_message", message, { id }) };
}

/** The values of the headers that say how a body is written. */
interface BodyHeaders {
  readonly contentType?: readonly string[] | undefined;
  readonly contentEncoding?: readonly string[] | undefined;
}

/**
 * Why a body may mean something to a server that we cannot read from its bytes: a content coding, several content types,
 * or a charset other than UTF-8. Undefined if its bytes are all there is to it.
 */
function hiddenMeaning(body: Buffer, headers: BodyHeaders): string | undefined {
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
 * JSON, and malformed types. `application/json` counts anywhere in the value, because servers search for it.
 */
function isJsonType(types: readonly string[]): boolean {
  const [type = ""] = types;
  return (
    /json|javascript|\*/iu.test(type) ||
    (type.trim() !== "" && !/^\s*[\w.+!#$&^-]+\/[\w.+!#$&^-]+\s*(?:;|$)/u.test(type))
  );
}

/** Whether a server that is more lenient than RFC 8259 may read JSON in a body that is not JSON. */
function mayBeReadAsJson(body: Buffer, headers: BodyHeaders): boolean {
  return isJsonType(headers.contentType ?? []) || couldBeJson(body);
}

/** How far to look for the beginning of a value; no real message has more padding. */
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
