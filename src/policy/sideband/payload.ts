import { isUtf8 } from "node:buffer";

import type { Span } from "../../protocol/json/outline.ts";
import { scan, skipSpace } from "../../protocol/json/scan.ts";
import { membersOf } from "../../protocol/json/read.ts";
import type { McpContext } from "../../protocol/http/mcp-context.ts";
import { splice } from "../../protocol/json/edit.ts";

/** One member of an object to be written: its name, and its value as JSON text. */
export type TextMember = readonly [name: string, json: string];

/** The text of an object whose values are JSON texts already; what is undefined is left out. */
export function objectText(members: readonly (TextMember | undefined)[]): string {
  const parts: string[] = [];
  for (const member of members) if (member !== undefined) parts.push(`${JSON.stringify(member[0])}:${member[1]}`);
  return `{${parts.join(",")}}`;
}

/**
 * Where the values of an object's own members stand; of equal names the last, as `JSON.parse` takes them. Undefined
 * when the bytes are not exactly one JSON object.
 */
function memberSpans(bytes: Buffer): ReadonlyMap<string, Span> | undefined {
  if (!isUtf8(bytes)) return undefined;
  const outline = scan(bytes, 0, Number.MAX_SAFE_INTEGER);
  if (!outline.ok || skipSpace(bytes, outline.end, bytes.length) < bytes.length) return undefined;
  if (bytes[outline.start] !== 0x7b) return undefined;
  const spans = new Map<string, Span>();
  for (const { name, value } of membersOf(bytes, outline)) spans.set(name, value);
  return spans;
}

/** The source text of one of an object's own members, digits and order as they came. */
export function memberText(bytes: Buffer, name: string): string | undefined {
  const span = memberSpans(bytes)?.get(name);
  return span === undefined ? undefined : bytes.toString("utf8", span.start, span.end);
}

/** The value of a JSON text; undefined when it is none. `null` stays `null`. */
export function parseJson(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return undefined;
  }
}

/** Whether a value is an object and no list. */
export function isJsonRecord(value: unknown): value is Readonly<Record<string, unknown>> {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}

/** What both phases need to know of an MCP request. */
export interface McpSummary {
  readonly method: string;
  /** The request's id as JSON text; undefined where it had none. */
  readonly id: string | undefined;
  readonly toolName: string | undefined;
  /** The `mcp` member of the response payload, which is also what is stored: everything but the arguments (PA-162). */
  readonly stored: string;
}

/** The `mcp` member of an access payload (PA-159): arguments and id are the client's own text (PA-151, PA-155). */
export function mcpMember(context: McpContext): string {
  return objectText(mcpMembers(context, true));
}

/** The facts of a request that is MCP. */
export function mcpSummary(context: McpContext): McpSummary {
  return {
    method: context.method,
    id: context.id?.json,
    toolName: context.toolName,
    stored: objectText(mcpMembers(context, false)),
  };
}

/** The facts as they were stored; undefined when the request was not MCP. */
export function storedMcpSummary(stored: string | undefined): McpSummary | undefined {
  if (stored === undefined) return undefined;
  const value = parseJson(stored);
  if (!isJsonRecord(value) || typeof value.mcp_method !== "string") return undefined;
  return {
    method: value.mcp_method,
    id: memberText(Buffer.from(stored), "mcp_jsonrpc_id"),
    toolName: typeof value.mcp_tool_name === "string" ? value.mcp_tool_name : undefined,
    stored,
  };
}

function mcpMembers(context: McpContext, withArguments: boolean): readonly (TextMember | undefined)[] {
  return [
    ["mcp_method", JSON.stringify(context.method)],
    textMember("mcp_tool_name", context.toolName),
    withArguments && context.toolArguments !== undefined ? ["mcp_tool_arguments", context.toolArguments] : undefined,
    textMember("mcp_resource_uri", context.resourceUri),
    textMember("mcp_prompt_name", context.promptName),
    context.id === undefined ? undefined : ["mcp_jsonrpc_id", context.id.json],
  ];
}

/** Empty values are left out, like missing ones (PA-159). */
function textMember(name: string, value: string | undefined): TextMember | undefined {
  return value === undefined || value === "" ? undefined : [name, JSON.stringify(value)];
}

/** A payload with its bodies marked out, so that they can be shortened. */
export interface Payload {
  /** The body as the decision point gets it. */
  readonly body: string;
  /** The JSON text with another body in it. */
  readonly render: (body: string) => string;
  /** The payload with its inner request's body shortened by at least so many bytes; undefined where there is none. */
  readonly shortenRequest?: (excess: number) => Payload | undefined;
}

/** A payload that may be sent. */
export interface FittedPayload {
  readonly text: string;
  /** The body as it was sent, which is what answers are compared with (PX-09). */
  readonly sentBody: string;
  readonly isTruncated: boolean;
}

/** What the settings say about size. */
export interface SizeLimit {
  readonly max_sideband_body_bytes: number;
  readonly max_sideband_body_action: "truncate" | "reject";
}

/**
 * Brings a payload under the limit by shortening its body, then that of the request inside; nothing else is touched
 * (PA-163, PA-164, PA-203, PA-204). Undefined when it may not be shortened or does not fit even so.
 */
export function fitPayload(payload: Payload, limit: SizeLimit): FittedPayload | undefined {
  const text = payload.render(payload.body);
  const most = limit.max_sideband_body_bytes;
  const excess = most === 0 ? 0 : Buffer.byteLength(text) - most;
  if (excess <= 0) return { text, sentBody: payload.body, isTruncated: false };
  if (limit.max_sideband_body_action === "reject") return undefined;
  const room = encodedLength(payload.body) - excess;
  const sentBody = room <= 0 ? "" : prefixWithin(payload.body, room);
  const shortened = payload.render(sentBody);
  const rest = Buffer.byteLength(shortened) - most;
  if (rest <= 0) return { text: shortened, sentBody, isTruncated: true };
  const last = payload.shortenRequest?.(rest)?.render(sentBody);
  if (last === undefined || Buffer.byteLength(last) > most) return undefined;
  return { text: last, sentBody, isTruncated: sentBody !== payload.body };
}

/** The text of a request payload with its body shortened by at least so many bytes, as far as there is one. */
export function shortenBody(requestText: string, excess: number): string {
  const bytes = Buffer.from(requestText);
  const span = memberSpans(bytes)?.get("body");
  if (span === undefined || bytes[span.start] !== 0x22) return requestText;
  const body: unknown = JSON.parse(bytes.toString("utf8", span.start, span.end));
  const text = String(body);
  const shorter = prefixWithin(text, Math.max(0, encodedLength(text) - excess));
  const replacement = { span, bytes: Buffer.from(JSON.stringify(shorter)) };
  return splice(bytes, { start: 0, end: bytes.length }, [replacement]).toString();
}

/** How many bytes a text takes inside the quotes of a JSON string. */
function encodedLength(text: string): number {
  return Buffer.byteLength(JSON.stringify(text)) - 2;
}

/** The longest prefix of whole characters that takes at most so many bytes inside a JSON string. */
function prefixWithin(text: string, room: number): string {
  let used = 0;
  let at = 0;
  while (at < text.length) {
    const code = text.codePointAt(at) ?? 0;
    used += encodedCharacterLength(code);
    if (used > room) break;
    at += code > 0xffff ? 2 : 1;
  }
  return text.slice(0, at);
}

function encodedCharacterLength(code: number): number {
  if (code === 0x22 || code === 0x5c) return 2;
  if (code < 0x20) return code >= 0x08 && code <= 0x0d && code !== 0x0b ? 2 : 6;
  if (code < 0x80) return 1;
  if (code < 0x800) return 2;
  if (code >= 0xd800 && code <= 0xdfff) return 6;
  return code > 0xffff ? 4 : 3;
}
