import type { IncomingMessage, ServerResponse } from "node:http";
import { errorTable } from "../../errors.ts";
import type { ReplyStream, TraceHeaders, TransportContext } from "../../core/exchange.ts";
import type { Challenge } from "../../core/pipeline.ts";
import { type Message, messageBytes, type RequestId } from "../../protocol/message.ts";
import { parseRevision, type Revision } from "../../protocol/revisions.ts";
import { errorMessage } from "../../core/reply.ts";
import type { Session } from "../../sessions/session.ts";
import type { HttpCaller } from "./route-authentication.ts";
import type { Route } from "../route/route.ts";

/** One HTTP request at a route's MCP endpoint. */
export interface HttpRequestContext {
  readonly request: IncomingMessage;
  readonly response: ServerResponse;
  readonly route: Route;
  readonly caller: HttpCaller;
  readonly header: (name: string) => string | undefined;
}

/** Tells a caller what to show instead, as long as nothing has been answered. */
export function setChallenge(
  { request, response, caller }: HttpRequestContext,
  challenge: Challenge | undefined,
): void {
  if (challenge === undefined || response.headersSent) return;
  response.setHeader("www-authenticate", caller.authentication.challenge(request, challenge));
}

/** Answers a call whose events are no longer kept: its caller must not wait for ever. */
export function lostEventsError(request: RequestId): Message {
  const { jsonrpc } = errorTable.overloaded;
  const message = "the events after that id are no longer kept; send the request again";
  return errorMessage(request, {
    code: jsonrpc ?? -32603,
    message,
    data: { origin: "gateway", code: "overloaded" },
  });
}

/** For an exchange that only asks on the side. */
export const noStream: ReplyStream = { open: () => {}, write: () => {} };

const noHeaders: Readonly<Record<string, string>> = {};
const letterP = 0x70;

/** The context of a POST, with the headers that may go on: allowed ones and mirrored parameters. */
export function transportContextOf(visit: HttpRequestContext, peer: string | undefined): TransportContext {
  const { request, header } = visit;
  const trace = traceHeadersOf(header);
  const facts = {
    type: "http",
    method: "POST",
    path: request.url ?? "",
    headers: passedHeaders(visit),
  } as const;
  if (trace === undefined) return peer === undefined ? facts : { ...facts, peer };
  return peer === undefined ? { ...facts, trace } : { ...facts, peer, trace };
}

function passedHeaders({ request, route, header }: HttpRequestContext): Readonly<Record<string, string>> {
  let kept: Record<string, string> | undefined;
  const isPlain = route.forwardHeaders.size === 0;
  for (const name in request.headers) {
    // One letter alone rules out nearly all.
    const isParameter = name.charCodeAt(4) === letterP && name.startsWith("mcp-param-");
    if (!isParameter && (isPlain || !route.forwardHeaders.has(name))) continue;
    const value = header(name);
    if (value !== undefined) (kept ??= {})[name] = value;
  }
  return kept ?? noHeaders;
}

function traceHeadersOf(header: HttpRequestContext["header"]): TraceHeaders | undefined {
  const traceparent = header("traceparent");
  if (traceparent === undefined) return undefined;
  const tracestate = header("tracestate");
  return tracestate === undefined ? { traceparent } : { traceparent, tracestate };
}

/** The revision that the header of a request names, if it is one we know. */
export function headerRevision(header: (name: string) => string | undefined): Revision | undefined {
  const named = header("mcp-protocol-version");
  const reading = named === undefined ? undefined : parseRevision(named.trim());
  return reading?.ok === true ? reading.revision : undefined;
}

/** A version header that the revision does not know, or that is not the one agreed on (SC-004, SC-005). */
export function revisionProblem(session: Session, header: (name: string) => string | undefined): string | undefined {
  const named = header("mcp-protocol-version")?.trim();
  if (named === undefined || session.revision === undefined || named === session.revision) return undefined;
  return parseRevision(named).ok
    ? `the header MCP-Protocol-Version says ${named}, but this session agreed on ${session.revision}`
    : `the header MCP-Protocol-Version names an unsupported version: ${named}`;
}

/** Refuses a request that is none of MCP: by status, and in words. */
export function refuseHttp(response: ServerResponse, status: number, text: string): void {
  const message = errorMessage(undefined, { code: -32000, message: text, data: { origin: "gateway" } });
  response.writeHead(status, {
    "content-type": "application/json",
    "content-length": messageBytes(message).length,
  });
  response.end(messageBytes(message));
}
