import { GatewayError } from "../../errors.ts";

/** Longest accepted endpoint; it is sent with every message. */
const maxLength = 4096;

/**
 * Parses the data of an `endpoint` event to the path and query to post messages to: a URI of the stream's origin, or one
 * relative to the stream (MCP 2024-11-05, HTTP with SSE). Throws a GatewayError for another origin: messages and
 * credentials are for the configured one only.
 */
export function parseEndpointEvent(data: string, stream: URL): string {
  if (data === "" || data.length > maxLength || !URL.canParse(data, stream.href)) {
    throw new GatewayError("upstream_invalid", "the upstream's message endpoint is not a valid URI", {
      cause: data.slice(0, 200),
    });
  }
  const endpoint = new URL(data, stream);
  if (endpoint.origin !== stream.origin) {
    throw new GatewayError("upstream_invalid", "the upstream's message endpoint has another origin", {
      cause: `${endpoint.origin} instead of ${stream.origin}`,
    });
  }
  return endpoint.pathname + endpoint.search;
}

const streamPath = /^((?:\/[^/?#]+)*)\/sse(?:\?|$)/u;

/**
 * The message endpoint for a client: the path of its stream request with `/messages` instead of `/sse`, below the public
 * path, with the session id. Undefined if the request is not for `…/sse`.
 */
export function formatEndpoint(requestUrl: string, publicPath: string, sessionId: string): string | undefined {
  const prefix = streamPath.exec(requestUrl)?.[1];
  if (prefix === undefined) return undefined;
  const base = publicPath.replace(/\/+$/u, "");
  return `${base}${prefix}/messages?sessionId=${encodeURIComponent(sessionId)}`;
}

/** The session id in the query of a request to a message endpoint. */
export function sessionIdOf(requestUrl: string): string | undefined {
  const query = requestUrl.indexOf("?");
  const id = query < 0 ? null : new URLSearchParams(requestUrl.slice(query)).get("sessionId");
  return id === null || id === "" ? undefined : id;
}
