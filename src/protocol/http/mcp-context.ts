import { isUtf8 } from "node:buffer";

import { errorResponse, type ErrorResponse, readId, type RequestId } from "../message.ts";
import { type Outline, type Span, spanOf } from "../json/outline.ts";
import {
  decodeString,
  elementsOf,
  membersOf,
  memberSource,
  memberString,
  memberType,
  type ScannedJson,
  typeAt,
} from "../json/read.ts";
import { scan, skipSpace } from "../json/scan.ts";

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

const none: ParsedMcpContext = { kind: "none" };

/**
 * Reads the MCP context of an HTTP body. It is more lenient than `parse`, because the body may not be MCP at all:
 * anything but JSON-RPC 2.0 with a recognized method has no context. Only bodies that policy and server could
 * understand differently are errors: batches and duplicate members.
 */
export function mcpContextOf(body: Buffer | string, { enableMcp }: { readonly enableMcp: boolean }): ParsedMcpContext {
  if (!enableMcp || body.length === 0) return none;
  const bytes = typeof body === "string" ? Buffer.from(body) : body;
  if (!isUtf8(bytes)) return none;
  // No depth limit: ignoring deep nesting would be a way around the policy, and the scanner does not recurse.
  const outline = scan(bytes, 0, Number.MAX_SAFE_INTEGER);
  if (!outline.ok || skipSpace(bytes, outline.end, bytes.length) < bytes.length) return none;
  const type = typeAt(bytes, outline.start);
  if (type === "array") return hasJsonRpcElement(bytes, outline) ? ambiguous("batches are not accepted") : none;
  return type === "object" ? readObject({ bytes, outline }) : none;
}

function readObject(source: ScannedJson & { readonly outline: Outline }): ParsedMcpContext {
  const { bytes, outline } = source;
  if (outline.duplicateAt >= 0) {
    const duplicate = duplicateMember(bytes, outline);
    if (duplicate !== undefined) return ambiguous(`duplicate member "${duplicate}"`, idOf(source));
  }
  if (memberString(source, "jsonrpc") !== "2.0") return none;
  const name = memberString(source, "method");
  const method = recognizedMethods.find((candidate) => candidate === name);
  return method === undefined ? none : { kind: "mcp", context: contextOf(source, method) };
}

function contextOf(source: ScannedJson, method: RecognizedMethod): McpContext {
  const id = idText(source);
  return {
    method,
    ...(id === undefined ? {} : { id }),
    ...(method === "tools/call" ? toolMembers(source) : {}),
    ...(method === "resources/read" ? optional("resourceUri", memberString(source, "params.uri")) : {}),
    ...(method === "prompts/get" ? optional("promptName", memberString(source, "params.name")) : {}),
  };
}

function toolMembers(source: ScannedJson): Partial<McpContext> {
  return {
    ...optional("toolName", memberString(source, "params.name")),
    ...optional("toolArguments", memberSource(source, "params.arguments")),
  };
}

function optional<Name extends string>(name: Name, value: string | undefined): { [Key in Name]?: string } {
  // The computed key is exactly Name; TypeScript widens it to string.
  return (value === undefined ? {} : { [name]: value }) as { [Key in Name]?: string };
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
  const seen = new Set<string>();
  let duplicate: string | undefined;
  let isJsonRpc = false;
  for (const { name, value } of membersOf(bytes, object)) {
    if (decidingMembers.has(name)) {
      if (seen.has(name)) duplicate ??= name;
      seen.add(name);
    }
    // The server may read any of several versions.
    if (name === "jsonrpc") isJsonRpc ||= isVersionTwo(bytes, value);
    if (name === "params" && bytes[value.start] === 0x7b) duplicate ??= duplicateParam(bytes, value);
  }
  return isJsonRpc ? duplicate : undefined;
}

function isVersionTwo(bytes: Buffer, { start, end }: Span): boolean {
  return bytes[start] === 0x22 && decodeString(bytes, start, end) === "2.0";
}

function duplicateParam(bytes: Buffer, params: Span): string | undefined {
  const seen = new Set<string>();
  for (const { name } of membersOf(bytes, params)) {
    if (!decidingParams.has(name)) continue;
    if (seen.has(name)) return name;
    seen.add(name);
  }
  return undefined;
}

function hasJsonRpcElement(bytes: Buffer, array: Span): boolean {
  for (const element of elementsOf(bytes, array)) {
    if (bytes[element.start] !== 0x7b) continue;
    for (const { name } of membersOf(bytes, element)) if (name === "jsonrpc") return true;
  }
  return false;
}

function ambiguous(message: string, id?: RequestId): ParsedMcpContext {
  return { kind: "ambiguous", response: errorResponse("invalid_message", message, { id }) };
}
