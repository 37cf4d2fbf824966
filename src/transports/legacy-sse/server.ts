import type { IncomingMessage, ServerResponse } from "node:http";
import { GatewayError } from "../../errors.ts";
import type { Principal, SetTimer } from "../../exchange.ts";
import { isJsonContentType } from "../../protocol/era.ts";
import { readBody } from "../http/body.ts";
import { writeHttpError, writeGatewayError } from "../http/refusal.ts";
import type { SseResponseOptions } from "../http/sse-response.ts";
import type { Channel, ChannelEvents } from "../transport.ts";
import { createSseClientChannel } from "./client-channel.ts";
import type { SseClientChannel } from "./client-channel.ts";
import { formatEndpoint, sessionIdOf } from "./endpoint-uri.ts";

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
