import { isUtf8 } from "node:buffer";

import { readId, type RequestId } from "../message.ts";
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
import { errorResponse, type ErrorResponse } from "../error-response.ts";

/** The methods that a decision point is told about; all others are ordinary traffic to it. */
export const recognizedMethods = [
  "tools/call",
  "tools/list",
  "resources/read",
  "resources/list",
  "prompts/get",
  "prompts/list",
  "initialize",
] as const;
/** One of the seven methods that count as MCP to a decision point. */
export type RecognizedMethod = (typeof recognizedMethods)[number];

/** What a decision point learns of an MCP request in an HTTP body. */
export interface McpContext {
  readonly method: RecognizedMethod;
  /** The id as it stood in the body, with its JSON type; absent in a request without one. */
  readonly id?: { readonly json: string; readonly type: "string" | "number" | "null" };
  readonly toolName?: string;
  /** The original text, not a new serialisation: digits, order and duplicates are as they came. */
  readonly toolArguments?: string;
  readonly resourceUri?: string;
  readonly promptName?: string;
}

/** Whether a body is MCP, is not, or could be read in two ways and is refused for that. */
export type ParsedMcpContext =
  | { readonly kind: "mcp"; readonly context: McpContext }
  | { readonly kind: "none" }
  | { readonly kind: "refused"; readonly refusal: ErrorResponse };

const nothing: ParsedMcpContext = { kind: "none" };

/**
 * Reads the MCP context of an HTTP body. It is more lenient than the parser of messages, because the body may well be
 * no MCP at all: whatever is not JSON-RPC 2.0 with a recognised method gives nothing and no error. Only bodies with
 * which a client could show the policy one thing and the server another are refused: batches, and members that come
 * twice.
 */
export function mcpContextOf(body: Buffer | string, { enableMcp }: { readonly enableMcp: boolean }): ParsedMcpContext {
  if (!enableMcp || body.length === 0) return nothing;
  const bytes = typeof body === "string" ? Buffer.from(body) : body;
  if (!isUtf8(bytes)) return nothing;
  // No depth limit: to call deep nesting "not MCP" would be a way around the policy, and the scanner does not recurse.
  const outline = scan(bytes, 0, Number.MAX_SAFE_INTEGER);
  if (!outline.ok || skipSpace(bytes, outline.end, bytes.length) < bytes.length) return nothing;
  const type = typeAt(bytes, outline.start);
  if (type === "array") return hasJsonRpcElement(bytes, outline) ? refused("batches are not accepted") : nothing;
  return type === "object" ? readObject({ bytes, outline }) : nothing;
}

function readObject(source: ScannedJson & { readonly outline: Outline }): ParsedMcpContext {
  const { bytes, outline } = source;
  if (outline.duplicateAt >= 0) {
    const twice = duplicateMember(bytes, outline);
    if (twice !== undefined) return refused(`the member "${twice}" comes twice`, idOf(source));
  }
  if (memberString(source, "jsonrpc") !== "2.0") return nothing;
  const name = memberString(source, "method");
  const method = recognizedMethods.find((candidate) => candidate === name);
  return method === undefined ? nothing : { kind: "mcp", context: contextOf(source, method) };
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

/** The id to answer a refusal with, where one can be read beyond doubt. */
function idOf(source: ScannedJson & { readonly outline: Outline }): RequestId | undefined {
  const span = spanOf(source.outline, "id");
  if (span === undefined || source.outline.duplicateId) return undefined;
  const reading = readId(source.bytes, span.start, span.end);
  return reading.ok && !reading.fractional ? reading.id : undefined;
}

/** Members of the envelope and of the parameters that decide what a request does; `jsonrpc` decides whether it is one. */
const decidingMembers: ReadonlySet<string> = new Set(["jsonrpc", "method", "params"]);
const decidingParams: ReadonlySet<string> = new Set(["name", "uri", "arguments"]);

/** The first deciding member of a JSON-RPC body that comes twice, at the two levels that are read here. */
function duplicateMember(bytes: Buffer, object: Span): string | undefined {
  const seen = new Set<string>();
  let twice: string | undefined;
  let isJsonRpc = false;
  for (const { name, value } of membersOf(bytes, object)) {
    if (decidingMembers.has(name)) {
      if (seen.has(name)) twice ??= name;
      seen.add(name);
    }
    // Any of several versions may be the one that the server reads.
    if (name === "jsonrpc") isJsonRpc ||= isVersionTwo(bytes, value);
    if (name === "params" && bytes[value.start] === 0x7b) twice ??= duplicateParam(bytes, value);
  }
  return isJsonRpc ? twice : undefined;
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

function refused(message: string, id?: RequestId): ParsedMcpContext {
  return { kind: "refused", refusal: errorResponse("invalid_message", message, { id }) };
}
