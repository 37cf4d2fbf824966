import type { AuthInfo, JSONRPCMessage, RequestId, Transport } from "@modelcontextprotocol/server";

/** The event name of replies: `result` and `error`, or always `message` for standard MCP clients. */
export type ReplyStyle = "document" | "standard";

/** What the transport writes to. */
export interface SseTransportDeps {
  readonly sessionId: string;
  readonly write: (event: Uint8Array) => void;
  /** Called when the server closes the connection. */
  readonly onClose: () => void;
  /** Called when the last running request was answered or cancelled. */
  readonly onDrained: () => void;
}

/** A transport of the SDK that sends its messages as events of one stream. */
export interface SseTransport extends Transport {
  /** Acknowledges a request, and hands any message to the server. */
  receive(message: JSONRPCMessage, style: ReplyStyle, authInfo: AuthInfo): void;
  /** Whether a request with this id is running. */
  isRunning(id: RequestId): boolean;
  /** How many requests are running. */
  readonly running: number;
}

/**
 * Creates the transport of a session. The ack is written before the server gets the request, so it precedes the reply
 * (KO-066). Replies are sent as they are ready (KO-079), in the style of their request's URL (KO-064).
 */
export function createSseTransport({ sessionId, write, onClose, onDrained }: SseTransportDeps): SseTransport {
  // The number 1 and the string "1" are different ids (KO-070).
  const styles = new Map<RequestId, ReplyStyle>();

  function settle(id: RequestId | undefined): void {
    if (id !== undefined && styles.delete(id) && styles.size === 0) onDrained();
  }

  const transport: SseTransport = {
    sessionId,
    start: () => Promise.resolve(),
    send: (message) => {
      write(jsonEvent(eventNameOf(message, styles), message));
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
      // A cancelled request gets no reply (MCP 2025-11-25, Cancellation).
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

/** The events of a stream of the HTTP+SSE profile. */
export type SseEventName = "endpoint" | "connected" | "ack" | "result" | "error" | "message" | "heartbeat" | "end";

type JsonEventName = Exclude<SseEventName, "endpoint">;

/** An event with JSON data, without an `id:` line (KO-059). JSON has no raw line breaks, so the data is one line. */
export function jsonEvent(name: JsonEventName, data: unknown): Uint8Array {
  return Buffer.from(`event: ${name}\ndata: ${JSON.stringify(data)}\n\n`);
}

/** The event that tells standard clients where to post (MCP 2024-11-05, HTTP with SSE). */
export function endpointEvent(uri: string): Uint8Array {
  return Buffer.from(`event: endpoint\ndata: ${uri}\n\n`);
}
