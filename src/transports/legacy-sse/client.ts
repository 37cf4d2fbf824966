import { GatewayError } from "../../errors.ts";
import { anonymous, type Principal } from "../../core/exchange.ts";
import type { SseEvent } from "../../protocol/sse/event.ts";
import type { HttpEndpoint } from "../streamable-http/endpoint.ts";
import { isEventStreamResponse, type ResponseHeaders, ResponseReader } from "../streamable-http/response.ts";
import { sendWithCredentials } from "../credential-provider.ts";
import type { Channel, ChannelEvents } from "../transport.ts";
import { parseEndpointEvent } from "./endpoint-uri.ts";
import { createPostQueue, postStatusError } from "./post-queue.ts";

/** An upstream server of the HTTP+SSE transport, with the path of its event stream. */
export interface SseUpstream extends Pick<
  HttpEndpoint,
  "origin" | "path" | "headers" | "credentials" | "dispatcher" | "limits" | "setTimer" | "newId" | "onStreamCount"
> {
  /** On whose behalf the session is; asked with every request. */
  readonly principalOf?: () => Principal;
  /** How long the upstream has to connect and to name its endpoint; 30 s unless given. */
  readonly endpointMs?: number;
  /** Most messages that wait for the upstream to accept them; 1,000 unless given. */
  readonly maxPending?: number;
  /** Most bytes of these; 16 MiB unless given. */
  readonly maxPendingBytes?: number;
}

const defaultEndpointMs = 30_000;
const defaultPending = 1000;
const defaultPendingBytes = 16 * 1024 * 1024;

/**
 * Opens a session with an HTTP+SSE server (MCP 2024-11-05, HTTP with SSE): its event stream for what it says, a POST
 * for each message to it. The channel can be used at once; messages wait until the upstream has named its endpoint.
 * The session lives as long as the stream: `events.closed` is called exactly once, after the last message and never
 * before this function has returned, when the stream ends, breaks, is not what it should be, or the channel is closed.
 * An answer may come before the promise of its request's `send` resolves.
 */
export function openSseChannel(upstream: SseUpstream, events: ChannelEvents): Channel {
  const { origin, path, headers, credentials, dispatcher, limits, setTimer, newId } = upstream;
  const { principalOf = () => anonymous } = upstream;
  const { endpointMs = defaultEndpointMs, maxPending = defaultPending } = upstream;
  const { maxPendingBytes = defaultPendingBytes } = upstream;
  const posts = createPostQueue({ ...upstream, principalOf, maxPending, maxPendingBytes });
  const incarnation = newId();
  let gone: GatewayError | undefined;
  let hasEndpoint = false;
  let isOpening = true;
  let reader: ResponseReader | undefined;

  function finish(error: GatewayError): void {
    if (gone !== undefined) return;
    gone = error;
    stopTimer();
    posts.stop(error);
    reader?.abort(error);
    if (isOpening) setImmediate(() => events.closed(error));
    else events.closed(error);
  }

  function take(event: SseEvent): void {
    if (gone !== undefined) return;
    const { data, kind, event: type = "" } = event;
    if (type === "endpoint") takeEndpoint(data);
    // Events without data keep connections open or prime a stream; neither is a message.
    else if (kind === "empty") return;
    else if (type === "" || type === "message") events.message(data);
    else events.malformed(data, `an event of the unknown type ${JSON.stringify(type.slice(0, 40))}`);
  }

  function takeEndpoint(data: Buffer): void {
    if (hasEndpoint) {
      events.malformed(data, "a second endpoint in one session");
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

  /** Opens the stream; resolves when it is there, and rejects when it is refused. */
  function connect(own: Readonly<Record<string, string>>): Promise<void> {
    const opened = Promise.withResolvers<void>();
    let isOpen = false;
    const stream = new ResponseReader(
      {
        onHeaders: (status, answer) => {
          const problem = streamError(status, answer);
          isOpen = problem === undefined;
          if (problem === undefined) opened.resolve();
          else opened.reject(problem);
        },
        onEvent: take,
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
    finish(new GatewayError("upstream_timeout", "the upstream did not name its endpoint for messages in time"));
  });
  const connected =
    credentials === undefined
      ? connect({})
      : sendWithCredentials(credentials, principalOf(), async (own) => {
          if (gone === undefined) await connect(own);
        });
  connected.catch((error: unknown) => {
    finish(GatewayError.from(error));
  });
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

/** The session cannot outlive its stream. */
function connectionEndedError(how: string, cause?: unknown): GatewayError {
  return new GatewayError("upstream_unreachable", `${how}, and the session with it`, { cause });
}

/** Why an answer to the GET is no event stream; undefined where it is one. */
function streamError(status: number, headers: ResponseHeaders): GatewayError | undefined {
  if (status !== 200) return postStatusError(status, headers);
  if (isEventStreamResponse(headers)) return undefined;
  return new GatewayError("upstream_invalid", "the upstream answered without an event stream; is it HTTP+SSE?");
}
