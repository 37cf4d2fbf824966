import type { JSONRPCMessage, McpServer, Transport } from "@modelcontextprotocol/server";
import { GatewayError } from "../errors.ts";
import type { Channel, ChannelEvents } from "./transport.ts";

/** Makes an official `McpServer`; called once for every channel, because one server holds one connection. */
export type McpServerFactory = () => McpServer | Promise<McpServer>;

/**
 * Opens a channel to a server in this process. The official SDK decides the era by the first message, as it does on
 * stdio; messages are written and read as JSON, so that what passes is the same as on every other transport.
 */
export async function openInProcessChannel(
  factory: McpServerFactory,
  events: ChannelEvents,
  newId: () => string,
): Promise<Channel> {
  // Loaded only where a server really runs in this process: the SDK is a good part of the start-up time.
  const { serveStdio } = await import("@modelcontextprotocol/server/stdio");
  const side = new InProcessTransport(events);
  const handle = serveStdio(factory, {
    transport: side,
    onerror: (error) => {
      events.malformed(Buffer.from(error.message), "the server reported an error");
    },
  });
  return {
    incarnation: newId(),
    send: (message) => {
      side.receive(message);
    },
    close: async () => {
      await handle.close();
    },
  };
}

/** The server's end of the channel, in the form that the SDK wants. */
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
    // There is nothing to start: messages come when they come.
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

  /** Hands a message to the server; it was parsed before, so it is JSON of the right form. */
  receive(bytes: Buffer): void {
    if (this.#isClosed) {
      throw new GatewayError("upstream_unreachable", "the in-process server has been closed");
    }
    this.onmessage?.(JSON.parse(bytes.toString()) as JSONRPCMessage);
  }
}
