import { GatewayError } from "../../errors.ts";

/** Longest endpoint that is taken from an upstream; every message would carry it. */
const maxLength = 4096;

/**
 * The path and query to post messages to, read from the data of an upstream's `endpoint` event: a URI of the stream's
 * own origin, or one relative to the stream (MCP 2024-11-05, HTTP with SSE). Throws a GatewayError for anything else:
 * messages and credentials are meant for the configured origin alone.
 */
export function parseEndpointEvent(data: string, stream: URL): string {
  if (data === "" || data.length > maxLength || !URL.canParse(data, stream.href)) {
    throw new GatewayError("upstream_invalid", "the upstream's endpoint for messages is not a usable URI", {
      cause: data.slice(0, 200),
    });
  }
  const endpoint = new URL(data, stream);
  if (endpoint.origin !== stream.origin) {
    throw new GatewayError(
      "upstream_invalid",
      "the upstream's endpoint for messages is of another origin, which is refused",
      { cause: `${endpoint.origin} instead of ${stream.origin}` },
    );
  }
  return endpoint.pathname + endpoint.search;
}

const streamPath = /^((?:\/[^/?#]+)*)\/sse(?:\?|$)/u;

/**
 * The endpoint that a client is told: the path of its stream's request with `/messages` for `/sse`, below the path
 * under which a proxy shows us, and with the session. Undefined where the request is for no `…/sse`.
 */
export function formatEndpoint(requestUrl: string, publicPath: string, sessionId: string): string | undefined {
  const prefix = streamPath.exec(requestUrl)?.[1];
  if (prefix === undefined) return undefined;
  const base = publicPath.replace(/\/+$/u, "");
  return `${base}${prefix}/messages?sessionId=${encodeURIComponent(sessionId)}`;
}

/** The session that a request to a message endpoint names; undefined where it names none. */
export function sessionIdOf(requestUrl: string): string | undefined {
  const query = requestUrl.indexOf("?");
  const id = query < 0 ? null : new URLSearchParams(requestUrl.slice(query)).get("sessionId");
  return id === null || id === "" ? undefined : id;
}
