import { isUtf8 } from "node:buffer";

import { isObject } from "../../lib/is-object.ts";
import type { McpContext } from "../../protocol/http/mcp-context.ts";
import { splice } from "../../protocol/json/edit.ts";
import type { Span } from "../../protocol/json/outline.ts";
import { membersOf } from "../../protocol/json/read.ts";
import { scan, skipSpace } from "../../protocol/json/scan.ts";
import type { SidebandSettings } from "./settings.ts";
import { type FinalResponse, finalResponseOf } from "../../protocol/sse/final-response.ts";
import { decodeContent } from "./content-coding.ts";
import type { HttpResponseFacts, StoredContext } from "./contract.ts";
import { fromSidebandHeaders, type HeaderMap, readHeaders, toSidebandHeaders } from "./http-format.ts";

/** The members of an object as JSON texts; those that are undefined are left out. */
export type TextMembers = Readonly<Record<string, string | undefined>>;

/** Writes an object from the JSON texts of its members. */
export function objectText(members: TextMembers): string {
  const parts = Object.entries(members).flatMap(([name, json]) =>
    json === undefined ? [] : [`${JSON.stringify(name)}:${json}`],
  );
  return `{${parts.join(",")}}`;
}

/** The values of an object's own members; undefined if the bytes are not exactly one JSON object. */
function memberSpans(bytes: Buffer): ReadonlyMap<string, Span> | undefined {
  if (!isUtf8(bytes)) return undefined;
  const outline = scan(bytes, 0, Number.MAX_SAFE_INTEGER);
  if (!outline.ok || skipSpace(bytes, outline.end, bytes.length) < bytes.length) return undefined;
  if (bytes[outline.start] !== 0x7b) return undefined;
  // Of duplicates the last wins, as in `JSON.parse`.
  return new Map([...membersOf(bytes, outline)].map(({ name, value }) => [name, value]));
}

/** The source text of an object's own member, with digits and order as they came. */
export function memberText(bytes: Buffer, name: string): string | undefined {
  const span = memberSpans(bytes)?.get(name);
  return span === undefined ? undefined : bytes.toString("utf8", span.start, span.end);
}

/** Undefined if the text is not JSON. */
export function parseJson(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return undefined;
  }
}

/** What both phases know about an MCP request. */
export interface McpSummary {
  readonly method: string;
  /** The request's id as JSON text. */
  readonly id: string | undefined;
  readonly toolName: string | undefined;
  /** The `mcp` member of the response payload, which is also stored: everything but the arguments (PA-162). */
  readonly stored: string;
}

/** The `mcp` member of an access payload (PA-159), with the client's own text of arguments and id (PA-151, PA-155). */
export function mcpMember(context: McpContext, withArguments = true): string {
  return objectText({
    mcp_method: JSON.stringify(context.method),
    mcp_tool_name: nonEmptyText(context.toolName),
    mcp_tool_arguments: withArguments ? context.toolArguments : undefined,
    mcp_resource_uri: nonEmptyText(context.resourceUri),
    mcp_prompt_name: nonEmptyText(context.promptName),
    mcp_jsonrpc_id: context.id?.json,
  });
}

/** Empty values are left out, like missing ones (PA-159). */
function nonEmptyText(value: string | undefined): string | undefined {
  return value === undefined || value === "" ? undefined : JSON.stringify(value);
}

export function mcpSummary(context: McpContext): McpSummary {
  const { method, id, toolName } = context;
  return { method, id: id?.json, toolName, stored: mcpMember(context, false) };
}

/** The summary that was stored; undefined if the request was not MCP. */
function storedMcpSummary(stored: string | undefined): McpSummary | undefined {
  const value = stored === undefined ? undefined : parseJson(stored);
  if (stored === undefined || !isObject(value) || typeof value["mcp_method"] !== "string") return undefined;
  const toolName = value["mcp_tool_name"];
  return {
    method: value["mcp_method"],
    id: memberText(Buffer.from(stored), "mcp_jsonrpc_id"),
    toolName: typeof toolName === "string" ? toolName : undefined,
    stored,
  };
}

/** A payload whose body can be truncated. */
export interface Payload {
  readonly body: string;
  /** The JSON text of the payload with another body. */
  readonly render: (body: string) => string;
  /** The payload with the body of its inner request truncated by at least so many bytes. */
  readonly truncateRequest?: (excess: number) => Payload | undefined;
}

/** A payload within the size limit. */
export interface FittedPayload {
  readonly text: string;
  /** The body that was sent, which answers are compared with (PX-09). */
  readonly sentBody: string;
  readonly isTruncated: boolean;
}

/**
 * Brings a payload under the limit by truncating its body, then that of its inner request (PA-163, PA-164, PA-203,
 * PA-204). Undefined if it may not be truncated, or does not fit even so.
 */
export function fitPayload(
  payload: Payload,
  limit: Pick<SidebandSettings, "max_sideband_body_bytes" | "max_sideband_body_action">,
): FittedPayload | undefined {
  const max = limit.max_sideband_body_bytes;
  // A body that is longer by itself is not written out first: the time for that would be everybody's.
  const isLong = max > 0 && payload.body.length > max;
  if (isLong && limit.max_sideband_body_action === "reject") return undefined;
  const body = isLong ? payload.body.slice(0, max) : payload.body;
  const text = payload.render(body);
  const excess = max === 0 ? 0 : Buffer.byteLength(text) - max;
  if (excess <= 0) return { text, sentBody: body, isTruncated: false };
  if (limit.max_sideband_body_action === "reject") return undefined;
  const room = encodedLength(body) - excess;
  const sentBody = room <= 0 ? "" : prefixWithin(body, room);
  const truncated = payload.render(sentBody);
  const rest = Buffer.byteLength(truncated) - max;
  if (rest <= 0) return { text: truncated, sentBody, isTruncated: true };
  const last = payload.truncateRequest?.(rest)?.render(sentBody);
  if (last === undefined || Buffer.byteLength(last) > max) return undefined;
  return { text: last, sentBody, isTruncated: sentBody !== payload.body };
}

/** The text of a request payload with its body truncated by at least so many bytes. */
export function truncateBody(requestText: string, excess: number): string {
  const bytes = Buffer.from(requestText);
  const span = memberSpans(bytes)?.get("body");
  if (span === undefined || bytes[span.start] !== 0x22) return requestText;
  const body = String(JSON.parse(bytes.toString("utf8", span.start, span.end)));
  const shorter = prefixWithin(body, Math.max(0, encodedLength(body) - excess));
  const replacement = { span, bytes: Buffer.from(JSON.stringify(shorter)) };
  return splice(bytes, { start: 0, end: bytes.length }, [replacement]).toString();
}

/** Length in bytes as a JSON string, without the quotes. */
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

/** The payload of a response, and what an answer is compared with. */
export interface ResponsePayload extends Payload {
  readonly headers: HeaderMap;
  readonly mcp: McpSummary | undefined;
  /** The part of the body that PingAuthorize gets. */
  readonly seen: FinalResponse;
  /** The upstream's body without its content coding. */
  readonly plainBody: Buffer;
  /** The method of the request. */
  readonly method: string;
  /** The headers of the request, as far as they were stored. */
  readonly requestHeaders: HeaderMap;
}

/** A payload, or the status that refuses the response. */
export type ComposedResponse =
  | { readonly ok: true; readonly payload: ResponsePayload }
  | { readonly ok: false; readonly status: 400 | 500 | 502; readonly problem: string };

/** Composes the payload of a response (PA-086 to PA-091, PA-177 to PA-182). */
export async function composeResponse(
  facts: HttpResponseFacts,
  stored: StoredContext,
  settings: SidebandSettings,
): Promise<ComposedResponse> {
  const headers = readHeaders(facts);
  if ("problem" in headers) return { ok: false, status: headers.isIncomplete ? 502 : 400, problem: headers.problem };
  const { paz_state: state, paz_original_request: request, paz_mcp: storedMcp } = stored;
  const original = parseJson(request);
  if (!isOriginal(original)) return { ok: false, status: 500, problem: "the stored request is malformed" };
  const mcp = settings.enable_mcp ? storedMcpSummary(storedMcp) : undefined;
  const content = await decodeContent(facts.body, headers.get("content-encoding"), settings.max_body_bytes);
  if ("problem" in content) return { ok: false, status: 502, problem: content.problem };
  const { body: decoded } = content;
  const plainBody = decoded ?? facts.body;
  const sentHeaders = new Map(headers);
  if (decoded !== undefined) sentHeaders.delete("content-encoding");
  const seen = finalResponseOf({
    enableMcp: settings.enable_mcp,
    contentType: headers.get("content-type")?.[0],
    body: plainBody,
  });
  const before: TextMembers = { method: JSON.stringify(original.method), url: JSON.stringify(original.url) };
  const after: TextMembers = {
    response_code: JSON.stringify(String(facts.status)),
    response_status: JSON.stringify(responseStatusText(facts.status)),
    headers: JSON.stringify(toSidebandHeaders(sentHeaders)),
    http_version: JSON.stringify(original.http_version),
    traffic_type: mcp && '"mcp"',
    mcp: mcp?.stored,
  };
  // Either the state or the request, never both (PA-091).
  const withContext = (context: TextMembers): Payload => ({
    body: seen.text,
    render: (text) => objectText({ ...before, body: JSON.stringify(text), ...after, ...context }),
  });
  const payload: Payload =
    state === undefined
      ? {
          ...withContext({ request }),
          truncateRequest: (excess) => withContext({ request: truncateBody(request, excess) }),
        }
      : withContext({ state });
  return {
    ok: true,
    payload: {
      ...payload,
      headers,
      mcp,
      seen,
      plainBody,
      method: original.method,
      requestHeaders: fromSidebandHeaders(original.headers) ?? new Map(),
    },
  };
}

interface OriginalRequest {
  readonly method: string;
  readonly url: string;
  readonly http_version: string;
  readonly headers?: unknown;
}

function isOriginal(value: unknown): value is OriginalRequest {
  return isObject(value) && ["method", "url", "http_version"].every((name) => typeof value[name] === "string");
}

const statusTexts: Readonly<Record<number, string>> = {
  200: "OK",
  400: "BAD REQUEST",
  401: "UNAUTHORIZED",
  404: "NOT FOUND",
  413: "PAYLOAD TOO LARGE",
  429: "TOO MANY REQUESTS",
  500: "INTERNAL SERVER ERROR",
  503: "SERVICE UNAVAILABLE",
};

/** The `response_status` of a status; empty for statuses that the Sideband API does not name (PA-089). */
export function responseStatusText(status: number): string {
  return statusTexts[status] ?? "";
}
