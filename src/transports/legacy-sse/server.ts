import type { IncomingMessage, ServerResponse } from "node:http";

import type { HeldBytes } from "../../core/byte-budget.ts";
import type { Principal, SetTimer } from "../../core/exchange.ts";
import { rejectionReply } from "../../core/reply.ts";
import { GatewayError } from "../../errors.ts";
import { contentProblem } from "../../protocol/http/era.ts";
import { messageBytes } from "../../protocol/message.ts";
import { encodeSseEvent, encodeSseMessage } from "../../protocol/sse/encoder.ts";
import { readBody } from "../http/request-body.ts";
import { SseResponse, type SseResponseOptions } from "../http/sse-response.ts";
import type { Channel, ChannelEvents } from "../transport.ts";
import { formatEndpoint, sessionIdOf } from "./client.ts";

export interface SseServerOptions {
  readonly stream: SseResponseOptions;
  /** Largest message that a client may post; asked for every message. */
  readonly maxBytes: () => number;
  /** Must be unguessable: the session id authorizes messages, together with the principal. */
  readonly newId: () => string;
  readonly setTimer: SetTimer;
  readonly principalOf: (request: IncomingMessage) => Principal;
  /** Something new that the sender of a request holds: a body, or what it has not read. */
  readonly hold?: (request: IncomingMessage) => HeldBytes;
  /**
   * Accepts a new client and returns the handlers of its channel, or throws a GatewayError to refuse it, such as
   * `overloaded`. The channel carries messages once this has returned. An error thrown by `message` answers the POST.
   */
  readonly accept: (channel: Channel, request: IncomingMessage) => ChannelEvents;
  /** A client has authenticated again, with a message on its channel. */
  readonly renew?: (channel: Channel, request: IncomingMessage) => void;
  /** Throws a GatewayError if a body is not the one that its request announces. */
  readonly checkBody?: (request: IncomingMessage, body: Buffer) => void;
  /** The path prefix that a proxy in front of us strips, such as `/tools`. */
  readonly publicPath?: () => string;
  /** Called for every refused request. */
  readonly onRefused?: (error: GatewayError, request: IncomingMessage) => void;
}

/** The two endpoints of the HTTP+SSE transport and their sessions. */
export interface SseServer {
  readonly size: number;
  /** Serves `…/sse`: GET opens an event stream, and a session that ends with it. */
  stream(request: IncomingMessage, response: ServerResponse): void;
  /** Serves `…/messages`: POST sends a message in a session. Never rejects. */
  messages(request: IncomingMessage, response: ServerResponse): Promise<void>;
  /** Ends all sessions. */
  close(reason: string): Promise<void>;
}

interface SseSession {
  readonly principal: Principal;
  readonly channel: SseClientChannel;
  readonly events: ChannelEvents;
}

const acceptedText = "Accepted";
const acceptedHeaders = { "content-type": "text/plain; charset=utf-8", "content-length": acceptedText.length };

/** Creates a server for MCP 2024-11-05, HTTP with SSE. A session belongs to the principal that opened it. */
export function createSseServer(options: SseServerOptions): SseServer {
  const { newId, principalOf, accept, maxBytes, setTimer, publicPath } = options;
  const sessions = new Map<string, SseSession>();

  function refuse(response: ServerResponse, thrown: unknown, headers: Readonly<Record<string, string>> = {}): void {
    const error = GatewayError.from(thrown);
    options.onRefused?.(error, response.req);
    writeError(response, error, headers);
  }

  function openSession(request: IncomingMessage, response: ServerResponse): void {
    const id = newId();
    const principal = principalOf(request);
    const endpoint = formatEndpoint(request.url ?? "", publicPath?.() ?? "", id);
    if (endpoint === undefined) throw new GatewayError("internal", "event streams are served at …/sse only");
    const channel = createSseClientChannel(response, {
      // Not the session id, which is a secret: the incarnation appears in logs.
      incarnation: newId(),
      stream: options.stream,
      held: options.hold?.(request),
      setTimer,
      onEnd: () => sessions.delete(id),
    });
    const events = accept(channel, request);
    if (!channel.isOver) sessions.set(id, { principal, channel, events });
    channel.open(endpoint, events);
    request.resume();
  }

  /** The session of a POST; that of another principal is unknown, not forbidden. */
  function sessionOf(request: IncomingMessage): SseSession {
    const id = sessionIdOf(request.url ?? "");
    if (id === undefined) {
      throw new GatewayError(
        "session_missing",
        "this endpoint needs the sessionId from the endpoint event of the event stream",
      );
    }
    const session = sessions.get(id);
    if (session?.principal.id !== principalOf(request).id) throw unknownSession();
    return session;
  }

  async function receiveMessage(request: IncomingMessage, response: ServerResponse): Promise<void> {
    const { channel, events } = sessionOf(request);
    const problem = contentProblem((name) => {
      const value = request.headers[name];
      return typeof value === "string" ? value : value?.join(", ");
    });
    if (problem !== undefined) throw new GatewayError("unsupported_media_type", problem);
    const held = options.hold?.(request);
    const body = await readBody(request, maxBytes(), held);
    // From here on it is counted as a message.
    held?.release();
    if (channel.isOver) throw unknownSession();
    options.checkBody?.(request, body);
    options.renew?.(channel, request);
    events.message(body);
    response.writeHead(202, acceptedHeaders);
    response.end(acceptedText);
  }

  return {
    get size() {
      return sessions.size;
    },
    stream(request, response) {
      if (request.method !== "GET") {
        const text = "this endpoint accepts GET only and answers with an event stream";
        refuse(response, new GatewayError("method_not_allowed", text), { allow: "GET" });
        return;
      }
      // The client may have disconnected while its request was checked.
      if (response.destroyed) return;
      try {
        openSession(request, response);
      } catch (error) {
        refuse(response, error);
      }
    },
    async messages(request, response) {
      if (request.method !== "POST") {
        refuse(response, new GatewayError("method_not_allowed", "this endpoint accepts POST only"), { allow: "POST" });
        return;
      }
      try {
        await receiveMessage(request, response);
      } catch (error) {
        refuse(response, error);
      }
    },
    close: async (reason) => {
      await Promise.all([...sessions.values()].map(({ channel }) => channel.close(reason)));
    },
  };
}

function encodeMessage(message: Buffer, id: string | undefined): Buffer {
  if (id === undefined) return encodeSseMessage(message);
  const event = encodeSseEvent({ event: "message", id, data: message });
  return event.ok ? event.bytes : encodeSseMessage(message);
}

function unknownSession(): GatewayError {
  return new GatewayError("session_unknown", "unknown session; open a new event stream");
}

export interface SseClientChannelOptions {
  readonly incarnation: string;
  readonly stream: SseResponseOptions;
  readonly held: HeldBytes | undefined;
  readonly setTimer: SetTimer;
  /** Called once when the channel ends, before `events.closed`. */
  readonly onEnd: () => void;
}

/** The channel to one client of the HTTP+SSE transport. */
export interface SseClientChannel extends Channel {
  /** Whether the client has disconnected or the channel is closed. */
  readonly isOver: boolean;
  /** Starts the event stream with the endpoint event. Calls `events.closed` at once if the channel is over. */
  open(endpoint: string, events: ChannelEvents): void;
}

/** How long a closed stream may take to deliver its queue. */
const graceMs = 2000;

/** Creates a channel that writes messages as events. It ends with the response. */
function createSseClientChannel(response: ServerResponse, options: SseClientChannelOptions): SseClientChannel {
  const { incarnation, setTimer, onEnd } = options;
  let stream: SseResponse | undefined;
  let events: ChannelEvents | undefined;
  let over: GatewayError | undefined;

  function end(error: GatewayError): GatewayError {
    if (over !== undefined) return over;
    over = error;
    onEnd();
    events?.closed(error);
    return error;
  }

  const closed = new Promise<void>((resolve) => {
    response.on("close", () => {
      end(new GatewayError("cancelled", "the client closed its event stream"));
      resolve();
    });
  });

  async function waitForDelivery(): Promise<void> {
    const stopTimer = setTimer(graceMs, () => response.destroy());
    await closed;
    stopTimer();
  }

  return {
    incarnation,
    get isOver() {
      return over !== undefined;
    },
    open(endpoint, receiver) {
      events = receiver;
      if (over !== undefined) {
        response.destroy();
        receiver.closed(over);
        return;
      }
      stream = new SseResponse(response, options.stream, {}, options.held);
      const first = encodeSseEvent({ event: "endpoint", data: endpoint });
      if (first.ok) void stream.write(first.bytes);
    },
    send(message, resumeId) {
      if (over !== undefined) return Promise.reject(over);
      if (stream === undefined) {
        return Promise.reject(new GatewayError("internal", "the event stream to the client is not open yet"));
      }
      const written = stream.write(encodeMessage(message, resumeId));
      if (stream.isOpen) return written;
      return Promise.reject(
        end(new GatewayError("overloaded", "the client does not read its messages and was disconnected")),
      );
    },
    async close(reason) {
      end(new GatewayError("cancelled", `the connection was closed: ${reason}`));
      if (stream === undefined || response.destroyed) return;
      stream.end();
      await waitForDelivery();
    },
  };
}

/**
 * Answers with a gateway error: its HTTP status, a JSON-RPC error with `origin: "gateway"`, and `Retry-After` if the
 * details have `retryAfter` in seconds. An error without a status means that the client has gone: closes the connection.
 */
function writeError(response: ServerResponse, error: GatewayError, headers: Readonly<Record<string, string>>): void {
  const { message, status, retryAfter } = rejectionReply(error, undefined);
  if (message === undefined || status === undefined) {
    response.destroy();
    return;
  }
  if (response.headersSent || response.destroyed) return;
  const body = messageBytes(message);
  response.writeHead(status, {
    ...headers,
    ...(retryAfter === undefined ? {} : { "retry-after": String(retryAfter) }),
    "content-type": "application/json",
    "content-length": body.length,
  });
  response.end(body);
}
