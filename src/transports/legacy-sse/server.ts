import type { IncomingMessage, ServerResponse } from "node:http";

import { GatewayError } from "../../errors.ts";
import type { Principal, SetTimer } from "../../core/exchange.ts";
import { isJsonContentType } from "../../protocol/http/era.ts";
import { readBody } from "../http/request-body.ts";
import { writeGatewayError, writeHttpError } from "../http/error-response.ts";
import { SseResponse, type SseResponseOptions } from "../http/sse-response.ts";
import type { Channel, ChannelEvents } from "../transport.ts";
import { formatEndpoint, sessionIdOf } from "./endpoint-uri.ts";
import { encodeSseEvent, encodeSseMessage } from "../../protocol/sse/encoder.ts";

/** What the two endpoints are made of. */
export interface SseServerOptions {
  /** Bound and keep-alive of the event streams. */
  readonly stream: SseResponseOptions;
  /** Largest message that a client may post; asked for every one of them. */
  readonly maxBytes: () => number;
  /** Must be unguessable: whoever knows a session's id, and is its principal, speaks in it. */
  readonly newId: () => string;
  readonly setTimer: SetTimer;
  /** Who sent a request; asked for every one of them. */
  readonly principalOf: (request: IncomingMessage) => Principal;
  /**
   * Takes in a new client and answers with what gets its messages, or throws a GatewayError to refuse it, such as
   * `overloaded` when there are enough. The channel carries messages from the moment this has returned. What the
   * receiver's `message` throws is answered to the POST it came with.
   */
  readonly accept: (channel: Channel, request: IncomingMessage) => ChannelEvents;
  /** A client has shown who it is anew, with a message on its channel. */
  readonly renew?: (channel: Channel, request: IncomingMessage) => void;
  /** The path under which a proxy that removes it shows us to clients, `/tools` for example. */
  readonly publicPath?: () => string;
  /** Hears of every request that was refused; for counters. */
  readonly onRefused?: (error: GatewayError) => void;
}

/** The two endpoints of the HTTP+SSE transport and their sessions. */
export interface SseServer {
  readonly size: number;
  /** Serves `…/sse`: GET opens an event stream, and a session that lives as long. */
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
const acceptedHeaders = {
  "content-type": "text/plain; charset=utf-8",
  "content-length": acceptedText.length,
};

/** Makes the server side of MCP 2024-11-05, HTTP with SSE. A session belongs to the principal that opened it. */
export function createSseServer(options: SseServerOptions): SseServer {
  const { newId, principalOf, accept, maxBytes, setTimer, publicPath } = options;
  const sessions = new Map<string, SseSession>();

  function refuse(response: ServerResponse, thrown: unknown): void {
    const error = GatewayError.from(thrown);
    options.onRefused?.(error);
    writeGatewayError(response, error);
  }

  function openSession(request: IncomingMessage, response: ServerResponse): void {
    const id = newId();
    const principal = principalOf(request);
    const endpoint = formatEndpoint(request.url ?? "", publicPath?.() ?? "", id);
    if (endpoint === undefined) throw new GatewayError("internal", "event streams are served at …/sse only");
    const channel = createSseClientChannel(response, {
      // It appears in logs, so it must not be the session's id, which is a secret.
      incarnation: newId(),
      stream: options.stream,
      setTimer,
      onOver: () => {
        sessions.delete(id);
      },
    });
    const events = accept(channel, request);
    if (!channel.isOver) sessions.set(id, { principal, channel, events });
    channel.open(endpoint, events);
    request.resume();
  }

  /** The session that a POST is meant for; another principal's is unknown, not forbidden. */
  function sessionOf(request: IncomingMessage): SseSession {
    const id = sessionIdOf(request.url ?? "");
    if (id === undefined) {
      throw new GatewayError(
        "session_missing",
        "this endpoint needs the sessionId that the event stream's first event names",
      );
    }
    const session = sessions.get(id);
    if (session?.principal.id !== principalOf(request).id) throw unknownSession();
    return session;
  }

  async function takeMessage(request: IncomingMessage, response: ServerResponse): Promise<void> {
    const { channel, events } = sessionOf(request);
    if (!isJsonContentType(request.headers["content-type"])) {
      writeHttpError(response, 415, "the body of a POST must be application/json");
      return;
    }
    const body = await readBody(request, maxBytes());
    if (channel.isOver) throw unknownSession();
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
        writeHttpError(response, 405, "this endpoint takes GET and answers with an event stream", {
          allow: "GET",
        });
        return;
      }
      // A client that left while its request was looked at needs no session.
      if (response.destroyed) return;
      try {
        openSession(request, response);
      } catch (error) {
        refuse(response, error);
      }
    },
    async messages(request, response) {
      if (request.method !== "POST") {
        writeHttpError(response, 405, "this endpoint takes POST", { allow: "POST" });
        return;
      }
      try {
        await takeMessage(request, response);
      } catch (error) {
        refuse(response, error);
      }
    },
    close: async (reason) => {
      await Promise.all([...sessions.values()].map(({ channel }) => channel.close(reason)));
    },
  };
}

function unknownSession(): GatewayError {
  return new GatewayError("session_unknown", "no such session; open an event stream for a new one");
}

/** What the channel to a client is made of. */
export interface SseClientChannelOptions {
  readonly incarnation: string;
  readonly stream: SseResponseOptions;
  readonly setTimer: SetTimer;
  /** Called once when the channel is over, before anybody else hears of it. */
  readonly onOver: () => void;
}

/** The channel to one client of the HTTP+SSE transport, which carries nothing until it is opened. */
export interface SseClientChannel extends Channel {
  /** Whether the client has gone or the channel was closed. */
  readonly isOver: boolean;
  /** Begins the event stream with the endpoint; the end of the channel is reported, also where it is over already. */
  open(endpoint: string, events: ChannelEvents): void;
}

/** How long a closed stream may take to deliver what is still queued. */
const graceMs = 2000;

/** Makes a channel that writes messages as events on a response. The end of the response is the end of the channel. */
function createSseClientChannel(response: ServerResponse, options: SseClientChannelOptions): SseClientChannel {
  const { incarnation, setTimer, onOver } = options;
  let stream: SseResponse | undefined;
  let events: ChannelEvents | undefined;
  let over: GatewayError | undefined;

  function end(error: GatewayError): GatewayError {
    if (over !== undefined) return over;
    over = error;
    onOver();
    events?.closed(error);
    return error;
  }

  const closed = new Promise<void>((resolve) => {
    response.on("close", () => {
      end(new GatewayError("cancelled", "the client closed its event stream"));
      resolve();
    });
  });

  async function delivered(): Promise<void> {
    const stopTimer = setTimer(graceMs, () => {
      response.destroy();
    });
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
      stream = new SseResponse(response, options.stream);
      const first = encodeSseEvent({ event: "endpoint", data: endpoint });
      if (first.ok) void stream.write(first.bytes);
    },
    send(message) {
      if (over !== undefined) return Promise.reject(over);
      if (stream === undefined) {
        return Promise.reject(new GatewayError("internal", "the event stream to the client is not open yet"));
      }
      const written = stream.write(encodeSseMessage(message));
      if (stream.isOpen) return written;
      return Promise.reject(
        end(new GatewayError("overloaded", "the client does not read its messages and was cut off")),
      );
    },
    async close(reason) {
      end(new GatewayError("cancelled", `the connection was closed: ${reason}`));
      if (stream === undefined || response.destroyed) return;
      stream.end();
      await delivered();
    },
  };
}
