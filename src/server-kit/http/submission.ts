import {
  type AuthInfo,
  isJsonContentType,
  type JSONRPCMessage,
  parseJSONRPCMessage,
  readRequestBody,
  type RequestId,
} from "@modelcontextprotocol/server";

import type { ReplyStyle, SseSession } from "../sse/session.ts";
import { type HttpRefusal, httpRefusal } from "./refusal.ts";

const sessionHeader = "x-mcp-session";
const invalidRequest = -32_600;

/** The limits of one POST. */
export interface SubmitLimits {
  readonly maxRequestBytes: number;
  readonly maxBatchSize: number;
}

/** A POST to a session. */
export interface Submission {
  readonly request: Request;
  readonly url: URL;
  readonly session: SseSession;
  readonly limits: SubmitLimits;
  /** Counts the further calls of a batch against the caller's rate limit. */
  readonly takeMore: (calls: number) => HttpRefusal | undefined;
  /** The caller of a message, for the SDK; called once per message. */
  readonly authInfo: () => AuthInfo;
  /** Called for every acknowledged request. */
  readonly onAck: () => void;
}

/** The session id of a POST, or the response that refuses it (KO-082 to KO-084). */
export function readSessionId(
  headers: Headers,
  url: URL,
): { readonly ok: true; readonly id: string } | { readonly ok: false; readonly response: HttpRefusal } {
  const inHeader = headers.get(sessionHeader) ?? "";
  const inQuery = url.searchParams.get("sessionId") ?? "";
  if (inHeader !== "" && inQuery !== "" && inHeader !== inQuery) {
    return { ok: false, response: httpRefusal("session_mismatch") };
  }
  const id = inHeader === "" ? inQuery : inHeader;
  return id === ""
    ? { ok: false, response: httpRefusal("unknown_session", { reason: "session_missing" }) }
    : { ok: true, id };
}

/** Validates a posted message or batch, then hands its messages to the session. Returns undefined if accepted. */
export async function submit(submission: Submission): Promise<HttpRefusal | undefined> {
  const { request, url, session, limits, takeMore, authInfo, onAck } = submission;
  if (!isJsonContentType(request.headers.get("content-type"))) return httpRefusal("unsupported_media_type");
  const body = await readRequestBody(request, limits.maxRequestBytes);
  if (body.tooLarge) return httpRefusal("too_large");
  // The stream may have closed while the body was read.
  if (session.endReason !== undefined) return httpRefusal("unknown_session", { reason: "session_unknown" });
  const style: ReplyStyle = url.searchParams.get("format") === "message" ? "standard" : "document";

  const parsed = parseBody(body.text, limits.maxBatchSize);
  if (!parsed.ok) {
    // Clients of this profile expect the error on the stream (KO-085), unless a running call has the same id.
    if (parsed.id !== undefined && !session.isRunning(parsed.id)) {
      session.reject(parsed.id, style, invalidRequest, "Invalid request");
    }
    return httpRefusal("invalid_jsonrpc", { reason: parsed.reason });
  }
  // Nothing is awaited after this, so that no other POST can use the same ids in between.
  await session.prepare();
  if (session.endReason !== undefined) return httpRefusal("unknown_session", { reason: "session_unknown" });
  const requests = parsed.messages.filter(isRequest);
  const ids = requests.map(({ id }) => id);
  if (new Set(ids).size < ids.length || ids.some((id) => session.isRunning(id))) {
    return httpRefusal("invalid_jsonrpc", { reason: "id_in_use" });
  }
  const limited = requests.length > 1 ? takeMore(requests.length - 1) : undefined;
  if (limited !== undefined) return limited;
  for (const message of parsed.messages) {
    session.receive(message, style, authInfo());
    if (isRequest(message)) onAck();
  }
  return undefined;
}

type ParsedBody =
  | { readonly ok: true; readonly messages: readonly JSONRPCMessage[] }
  | { readonly ok: false; readonly reason: string; readonly id?: RequestId };

function parseBody(text: string, maxBatchSize: number): ParsedBody {
  let value: unknown;
  try {
    value = JSON.parse(text);
  } catch {
    return { ok: false, reason: "not_json" };
  }
  if (!Array.isArray(value)) {
    const message = parseMessage(value);
    if (message !== undefined) return { ok: true, messages: [message] };
    const id = readableId(value);
    return { ok: false, reason: "not_jsonrpc", ...(id === undefined ? {} : { id }) };
  }
  if (value.length === 0) return { ok: false, reason: "empty_batch" };
  if (value.length > maxBatchSize) return { ok: false, reason: "batch_too_large" };
  const messages = value.map(parseMessage).filter((message) => message !== undefined);
  if (messages.length < value.length) return { ok: false, reason: "not_jsonrpc" };
  // A session is initialized once and alone (MCP 2025-03-26, Lifecycle).
  if (messages.some(isInitialize)) return { ok: false, reason: "initialize_in_batch" };
  return { ok: true, messages };
}

function parseMessage(value: unknown): JSONRPCMessage | undefined {
  try {
    return parseJSONRPCMessage(value);
  } catch {
    return undefined;
  }
}

function isRequest(message: JSONRPCMessage): message is Extract<JSONRPCMessage, { method: string; id: RequestId }> {
  return "method" in message && "id" in message;
}

function isInitialize(message: JSONRPCMessage): boolean {
  return "method" in message && message.method === "initialize";
}

function readableId(value: unknown): RequestId | undefined {
  if (typeof value !== "object" || value === null || !("id" in value)) return undefined;
  const { id } = value;
  return typeof id === "string" || (typeof id === "number" && Number.isInteger(id)) ? id : undefined;
}

/** The JSON body of a request, which stays readable; undefined if the body is too large or not JSON. */
export async function peekJsonBody(request: Request, maxBytes: number): Promise<unknown> {
  try {
    const body = await readRequestBody(request.clone(), maxBytes);
    return body.tooLarge ? undefined : JSON.parse(body.text);
  } catch {
    return undefined;
  }
}

/** The JSON body of a request, or the response that refuses it. */
export async function readJsonBody(
  request: Request,
  maxBytes: number,
): Promise<{ readonly ok: true; readonly value: unknown } | { readonly ok: false; readonly response: Response }> {
  if (!isJsonContentType(request.headers.get("content-type"))) {
    return { ok: false, response: httpRefusal("unsupported_media_type") };
  }
  const body = await readRequestBody(request, maxBytes);
  if (body.tooLarge) return { ok: false, response: httpRefusal("too_large") };
  try {
    return { ok: true, value: JSON.parse(body.text) };
  } catch {
    return {
      ok: false,
      response: Response.json(
        { error: "validation_failed", message: "invalid arguments: the body is not JSON" },
        { status: 400 },
      ),
    };
  }
}
