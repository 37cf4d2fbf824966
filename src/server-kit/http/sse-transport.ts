import type { AuthInfo, JSONRPCMessage, RequestId, Transport } from "@modelcontextprotocol/server";

import { jsonEvent, type createMessageEncoder } from "./frames.ts";

/** How a client wants its replies named: as the document says, or all as `message` like standard MCP clients (A5). */
export type ReplyStyle = "document" | "standard";

/** What the transport needs of the stream that it writes to. */
export interface SseTransportDeps {
  readonly sessionId: string;
  readonly write: (frame: Uint8Array) => void;
  /** Makes the frames of messages; shared by all sessions. */
  readonly frame: ReturnType<typeof createMessageEncoder>;
  /** The server wants the connection closed. */
  readonly onClose: () => void;
  /** The last running request has been answered or cancelled. */
  readonly onDrained: () => void;
}

/** A transport of the official SDK whose messages go over one event stream. */
export interface SseTransport extends Transport {
  /** Acknowledges a message where it is a request, and hands it to the server. */
  receive(message: JSONRPCMessage, style: ReplyStyle, authInfo: AuthInfo): void;
  /** Whether a request with this id still waits for its reply. */
  isRunning(id: RequestId): boolean;
  /** Requests that wait for their reply. */
  readonly running: number;
}

/**
 * Makes the transport of a session. The ack is written before the server sees the request, so it precedes the reply by
 * construction (KO-066); replies come as they are ready (KO-079), named by the URL their request was posted to (KO-064).
 */
export function createSseTransport(options: SseTransportDeps): SseTransport {
  const { sessionId, write, frame, onClose, onDrained: onQuiet } = options;
  // By id with its JSON type: the number 1 and the text "1" are two requests (KO-070).
  const styles = new Map<RequestId, ReplyStyle>();

  function settle(id: RequestId | undefined): void {
    if (id !== undefined && styles.delete(id) && styles.size === 0) onQuiet();
  }

  const transport: SseTransport = {
    sessionId,
    start: () => Promise.resolve(),
    send: (message) => {
      write(frame(eventNameOf(message, styles), message));
      if (!("method" in message)) settle(message.id);
      return Promise.resolve();
    },
    close: () => {
      onClose();
      return Promise.resolve();
    },
    receive: (message, style, authInfo) => {
      if ("method" in message && "id" in message) {
        styles.set(message.id, style);
        write(jsonEvent("ack", { id: message.id }));
      }
      transport.onmessage?.(message, { authInfo });
      // A cancelled request is not answered any more (MCP 2025-11-25, Cancellation).
      const cancelled = cancelledIdOf(message);
      if (cancelled !== undefined) settle(cancelled);
    },
    isRunning: (id) => styles.has(id),
    get running() {
      return styles.size;
    },
  };
  return transport;
}

function eventNameOf(
  message: JSONRPCMessage,
  styles: ReadonlyMap<RequestId, ReplyStyle>,
): "message" | "result" | "error" {
  if ("method" in message) return "message";
  if (message.id !== undefined && styles.get(message.id) === "standard") return "message";
  return "error" in message ? "error" : "result";
}

function cancelledIdOf(message: JSONRPCMessage): RequestId | undefined {
  if (!("method" in message) || message.method !== "notifications/cancelled") return undefined;
  const id = message.params?.["requestId"];
  return typeof id === "string" || typeof id === "number" ? id : undefined;
}
