import { GatewayError } from "../../errors.ts";
import type { Exchange, ReplyStream, TransportContext } from "../../exchange.ts";
import type { Message, RequestMessage } from "../../protocol/message.ts";
import { mirroredHeadersOf } from "../../protocol/mirrored-headers.ts";
import type { HeaderLine } from "../../protocol/mirrored-headers.ts";
import { newestModern } from "../../protocol/revisions.ts";
import type { ToolFacts } from "./tool-table.ts";

/**
 * The exchange of a modern message that a legacy exchange leads to: nobody's session, tracked by nobody else, and
 * without parameter headers that the client sent, which mean nothing in its era.
 */
export function toModernExchange(exchange: Exchange, message: Message): Exchange {
  return {
    ...exchange,
    message,
    original: message,
    revision: newestModern,
    era: "modern",
    session: undefined,
    transport: withHeaders(exchange.transport, none),
    parent: undefined,
    tracking: { entry: undefined },
  };
}

/** The headers that repeat arguments of a tool call, as the tool's schema marks them. */
export function parameterHeaders(
  message: RequestMessage,
  tool: ToolFacts | undefined,
): readonly HeaderLine[] {
  if (tool === undefined || tool.parameters.length === 0) return none;
  const mirrored = mirroredHeadersOf(message, newestModern, tool.parameters);
  if (!mirrored.ok) throw new GatewayError("invalid_params", mirrored.message);
  return mirrored.headers.filter(([name]) => name.startsWith("Mcp-Param-"));
}

const none: readonly HeaderLine[] = [];

/** The client's stream for a modern answer, which cannot be taken up again once it is broken. */
export function withoutPause(reply: ReplyStream | undefined): ReplyStream | undefined {
  return reply === undefined ? undefined : new UnpausedReply(reply);
}

/** A class, because one is made for every request and most are never written to. */
class UnpausedReply implements ReplyStream {
  readonly #reply: ReplyStream;

  constructor(reply: ReplyStream) {
    this.#reply = reply;
  }

  open(): void {
    this.#reply.open();
  }

  write(message: Message): void | Promise<void> {
    return this.#reply.write(message);
  }

  writeRaw(data: Buffer, event: string | undefined): void | Promise<void> {
    return this.#reply.writeRaw?.(data, event);
  }
}

function hasParameters(headers: Readonly<Record<string, string>>): boolean {
  for (const name in headers) if (name.startsWith("mcp-param-")) return true;
  return false;
}

/** How a message came, with these parameter headers instead of any that were there. */
export function withHeaders(transport: TransportContext, lines: readonly HeaderLine[]): TransportContext {
  if (lines.length === 0 && (transport.type !== "http" || !hasParameters(transport.headers)))
    return transport;
  const received = transport.type === "http" ? Object.entries(transport.headers) : [];
  const headers = Object.fromEntries([
    ...received.filter(([name]) => !name.startsWith("mcp-param-")),
    ...lines.map(([name, value]) => [name.toLowerCase(), value] as const),
  ]);
  return transport.type === "http"
    ? { ...transport, headers }
    : { type: "http", method: "POST", path: "", headers };
}
