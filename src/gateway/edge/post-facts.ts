import type { IncomingMessage } from "node:http";
import { TLSSocket } from "node:tls";

import type { TraceHeaders, TransportContext } from "../../core/exchange.ts";

/** What is kept of the POST that brought a message. The path must not hold a session id. */
export function httpFactsOfPost(
  request: IncomingMessage,
  path: string,
  forwardHeaders: ReadonlySet<string>,
  peer: string | undefined,
): Extract<TransportContext, { readonly type: "http" }> {
  const trace = traceHeadersOf(request);
  const facts = {
    type: "http",
    method: "POST",
    path,
    host: request.headers.host,
    isSecure: request.socket instanceof TLSSocket,
    headers: forwardedHeaders(request, forwardHeaders),
  } as const;
  if (trace === undefined) return peer === undefined ? facts : { ...facts, peer };
  return peer === undefined ? { ...facts, trace } : { ...facts, peer, trace };
}

const noHeaders: Readonly<Record<string, string>> = {};
const letterP = 0x70;

/** The headers that may go on: those the route forwards, and mirrored parameters. */
function forwardedHeaders(
  { headers }: IncomingMessage,
  forwardHeaders: ReadonlySet<string>,
): Readonly<Record<string, string>> {
  let kept: Record<string, string> | undefined;
  const forwardsNone = forwardHeaders.size === 0;
  for (const name in headers) {
    // The fifth letter alone rules out nearly all headers.
    const isParameter = name.charCodeAt(4) === letterP && name.startsWith("mcp-param-");
    if (!isParameter && (forwardsNone || !forwardHeaders.has(name))) continue;
    const value = textOf(headers[name]);
    if (value !== undefined) (kept ??= {})[name] = value;
  }
  return kept ?? noHeaders;
}

function traceHeadersOf({ headers }: IncomingMessage): TraceHeaders | undefined {
  const traceparent = textOf(headers["traceparent"]);
  if (traceparent === undefined) return undefined;
  const tracestate = textOf(headers["tracestate"]);
  return tracestate === undefined ? { traceparent } : { traceparent, tracestate };
}

function textOf(value: string | string[] | undefined): string | undefined {
  return typeof value === "string" ? value : value?.join(", ");
}
