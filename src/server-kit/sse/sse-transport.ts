import type { AuthInfo, JSONRPCMessage, RequestId, Transport } from "@modelcontextprotocol/server";

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

/** The events that a stream of the document's profile has. */
export type SseEventName = "endpoint" | "connected" | "ack" | "result" | "error" | "message" | "heartbeat" | "end";

type JsonEventName = Exclude<SseEventName, "endpoint">;

/**
 * The bytes of one event whose data is JSON: two lines and an empty one, never an `id:` line (KO-059). JSON has no raw
 * line breaks, so the data is always one line.
 */
export function jsonEvent(name: JsonEventName, data: unknown): Uint8Array {
  return Buffer.from(`event: ${name}\ndata: ${JSON.stringify(data)}\n\n`);
}

/** The bytes of the event that tells standard clients where to post (MCP 2024-11-05, HTTP with SSE): a plain URI. */
export function endpointEvent(uri: string): Uint8Array {
  return Buffer.from(`event: endpoint\ndata: ${uri}\n\n`);
}

const comma = Buffer.from(",");

/**
 * Makes frames of messages as `jsonEvent` does, but remembers the bytes of each tool definition: a catalogue gives the
 * same objects to everybody, and writing sixty of them anew for each list is what makes lists slow (KO-028).
 */
export function createMessageEncoder(): (name: JsonEventName, message: object) => Uint8Array {
  const known = new WeakMap<object, Buffer>();

  function bytesOf(tool: object): Buffer {
    let bytes = known.get(tool);
    if (bytes === undefined) {
      bytes = Buffer.from(JSON.stringify(tool));
      known.set(tool, bytes);
    }
    return bytes;
  }

  return (name, message) => {
    const list = toolListOf(message);
    if (list === undefined) return jsonEvent(name, message);
    const { tools, result } = list;
    const empty = JSON.stringify({ ...message, result: { tools: [], ...result } });
    // Whatever else the message has, the first empty list in it that is called tools is ours: the id is no object.
    const at = empty.indexOf('"tools":[') + '"tools":['.length;
    return Buffer.concat([
      Buffer.from(`event: ${name}\ndata: ${empty.slice(0, at)}`),
      ...tools.flatMap((tool, index) => (index === 0 ? [bytesOf(tool)] : [comma, bytesOf(tool)])),
      Buffer.from(`${empty.slice(at)}\n\n`),
    ]);
  };
}

/** The tools of a message that answers tools/list, and what else its result has. */
function toolListOf(message: object): { readonly tools: readonly object[]; readonly result: object } | undefined {
  if (!("result" in message) || typeof message.result !== "object" || message.result === null) return undefined;
  if (!("tools" in message.result) || !Array.isArray(message.result.tools)) return undefined;
  const { tools, ...result } = message.result;
  const given: readonly unknown[] = tools;
  const objects = given.filter((tool) => typeof tool === "object" && tool !== null);
  return objects.length === given.length ? { tools: objects, result } : undefined;
}
