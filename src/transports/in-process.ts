import type { JSONRPCMessage, McpServer, Transport } from "@modelcontextprotocol/server";
import { GatewayError } from "../errors.ts";
import type { Channel, ChannelEvents } from "./transport.ts";

/** Creates an `McpServer` of the official SDK; called for every channel, because a server has one connection. */
export type McpServerFactory = () => McpServer | Promise<McpServer>;

/**
 * Opens a channel to a server in this process. The SDK decides the era by the first message, as on stdio. Messages are
 * serialized, so that they are the same as on every other transport.
 */
export async function openInProcessChannel(
  factory: McpServerFactory,
  events: ChannelEvents,
  newId: () => string,
): Promise<Channel> {
  // Loaded on demand: the SDK takes a large part of the start-up time.
  const { serveStdio } = await import("@modelcontextprotocol/server/stdio");
  const transport = new InProcessTransport(events);
  const handle = serveStdio(factory, {
    transport,
    onerror: (error) => events.malformed(Buffer.from(error.message), "the server reported an error"),
  });
  return {
    incarnation: newId(),
    send: (message) => transport.receive(message),
    close: async () => {
      await handle.close();
    },
  };
}

/** The server's end of the channel, as a transport of the SDK. */
class InProcessTransport implements Transport {
  onmessage?: (message: JSONRPCMessage) => void;
  onclose?: () => void;
  onerror?: (error: Error) => void;
  readonly #events: ChannelEvents;
  #isClosed = false;

  constructor(events: ChannelEvents) {
    this.#events = events;
  }

  async start(): Promise<void> {
    // Nothing to start.
  }

  async send(message: JSONRPCMessage): Promise<void> {
    if (!this.#isClosed) this.#events.message(Buffer.from(JSON.stringify(message)));
  }

  async close(): Promise<void> {
    if (this.#isClosed) return;
    this.#isClosed = true;
    this.onclose?.();
    this.#events.closed(new GatewayError("upstream_unreachable", "the in-process server has been closed"));
  }

  /** Delivers a message to the server. It has been parsed before, so it is a JSON-RPC message. */
  receive(bytes: Buffer): void {
    if (this.#isClosed) throw new GatewayError("upstream_unreachable", "the in-process server has been closed");
    this.onmessage?.(JSON.parse(bytes.toString()) as JSONRPCMessage);
  }
}
