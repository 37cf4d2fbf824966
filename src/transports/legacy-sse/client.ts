import { GatewayError } from "../../errors.ts";
import { anonymous, type Principal } from "../../core/exchange.ts";
import type { SseEvent } from "../../protocol/sse/event.ts";
import type { HttpEndpoint } from "../streamable-http/endpoint.ts";
import {
  isEventStreamResponse,
  type ResponseHeaders,
  ResponseReader,
  upstreamStatusError,
} from "../streamable-http/response.ts";
import { type Channel, type ChannelEvents, sendWithCredentials } from "../transport.ts";
import { createPostQueue } from "./post-queue.ts";

/** An upstream server with the HTTP+SSE transport; the path is that of its event stream. */
export interface SseUpstream extends Pick<
  HttpEndpoint,
  "origin" | "path" | "headers" | "credentials" | "dispatcher" | "limits" | "setTimer" | "newId" | "onStreamCount"
> {
  /** The caller of the session; asked for every request. */
  readonly principalOf?: () => Principal;
  /** How long connecting and the endpoint event may take; 30 s by default. */
  readonly endpointMs?: number;
  /** Most messages that wait to be accepted; 1,000 by default. */
  readonly maxPending?: number;
  /** Most bytes of these; 16 MiB by default. */
  readonly maxPendingBytes?: number;
}

const defaultEndpointMs = 30_000;
const defaultPending = 1000;
const defaultPendingBytes = 16 * 1024 * 1024;

/**
 * Opens a session with an HTTP+SSE server (MCP 2024-11-05, HTTP with SSE): an event stream from the server, a POST for
 * each message to it. The channel can be used at once; messages wait for the endpoint event. The session ends with the
 * stream: `events.closed` is called exactly once, after the last message and never before this function has returned.
 * A response may arrive before the `send` of its request resolves.
 */
export function openSseChannel(upstream: SseUpstream, events: ChannelEvents): Channel {
  const { origin, path, headers, credentials, dispatcher, limits, setTimer, newId } = upstream;
  const { principalOf = () => anonymous } = upstream;
  const { endpointMs = defaultEndpointMs, maxPending = defaultPending } = upstream;
  const { maxPendingBytes = defaultPendingBytes } = upstream;
  const posts = createPostQueue({ ...upstream, principalOf, maxPending, maxPendingBytes });
  const incarnation = newId();
  let ended: GatewayError | undefined;
  let hasEndpoint = false;
  let isOpening = true;
  let reader: ResponseReader | undefined;

  function finish(error: GatewayError): void {
    if (ended !== undefined) return;
    ended = error;
    stopTimer();
    posts.stop(error);
    reader?.abort(error);
    if (isOpening) setImmediate(() => events.closed(error));
    else events.closed(error);
  }

  function receive(event: SseEvent): void {
    if (ended !== undefined) return;
    const { data, kind, event: type = "" } = event;
    if (type === "endpoint") receiveEndpoint(data);
    // Events without data only keep the connection open.
    else if (kind === "empty") return;
    else if (type === "" || type === "message") events.message(data);
    else events.malformed(data, `an event of the unknown type ${JSON.stringify(type.slice(0, 40))}`);
  }

  function receiveEndpoint(data: Buffer): void {
    if (hasEndpoint) {
      events.malformed(data, "a second endpoint event");
      return;
    }
    try {
      posts.open(parseEndpointEvent(data.toString(), new URL(origin + path)));
      hasEndpoint = true;
      stopTimer();
    } catch (error) {
      finish(GatewayError.from(error));
    }
  }

  /** Opens the stream; rejects if the upstream refuses it. */
  function connect(own: Readonly<Record<string, string>>): Promise<void> {
    const opened = Promise.withResolvers<void>();
    let isOpen = false;
    const stream = new ResponseReader(
      {
        onHeaders: (status, responseHeaders) => {
          const problem = streamError(status, responseHeaders);
          isOpen = problem === undefined;
          if (problem === undefined) opened.resolve();
          else opened.reject(problem);
        },
        onEvent: receive,
        onEnd: () => {
          if (isOpen) finish(connectionEndedError("the upstream ended its event stream"));
        },
        onError: (error) => {
          const isBroken = isOpen && error.code === "upstream_unreachable";
          if (isOpen)
            finish(isBroken ? connectionEndedError("the connection to the upstream broke", error.cause) : error);
          else opened.reject(error);
        },
      },
      limits.maxBytes,
      upstream.onStreamCount,
    );
    reader = stream;
    dispatcher.dispatch(
      {
        origin,
        path,
        method: "GET",
        headers: { accept: "text/event-stream", "accept-encoding": "identity", ...headers, ...own },
        headersTimeout: 0,
        bodyTimeout: 0,
      },
      stream,
    );
    return opened.promise;
  }

  const stopTimer = setTimer(endpointMs, () => {
    finish(new GatewayError("upstream_timeout", "the upstream sent no endpoint event in time"));
  });
  sendWithCredentials(credentials, principalOf(), async (own) => {
    if (ended === undefined) await connect(own);
  }).catch((error: unknown) => finish(GatewayError.from(error)));
  isOpening = false;

  return {
    incarnation,
    send: (message) => posts.send(message),
    close: (reason) => {
      finish(new GatewayError("upstream_unreachable", `the connection was closed: ${reason}`));
      return Promise.resolve();
    },
  };
}

function connectionEndedError(how: string, cause?: unknown): GatewayError {
  return new GatewayError("upstream_unreachable", `${how}, which ends the session`, { cause });
}

/** The error for a response that is not an event stream. */
function streamError(status: number, headers: ResponseHeaders): GatewayError | undefined {
  if (status !== 200) return upstreamStatusError(status, headers);
  if (isEventStreamResponse(headers)) return undefined;
  return new GatewayError("upstream_invalid", "the upstream answered without an event stream; is it HTTP+SSE?");
}

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
