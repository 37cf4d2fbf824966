import { GatewayError } from "../../errors.ts";
import type { Exchange } from "../../core/exchange.ts";
import type { Reply } from "../../core/pipeline.ts";
import { type LinkEvents, requestWithCallback, settleCallback, type UpstreamLink } from "../../transports/transport.ts";

/** The HTTP transport that an upstream speaks, once detected. */
export interface DetectedTransport {
  transport: "streamable-http" | "sse" | undefined;
}

/** Statuses with which an HTTP+SSE endpoint answers a POST of `initialize` (MCP 2025-03-26, Backwards Compatibility). */
const unknownPost: ReadonlySet<unknown> = new Set([400, 404, 405]);

/**
 * A link that detects with the handshake whether the upstream speaks Streamable HTTP or HTTP+SSE. All links of the route
 * share the result.
 */
export function createTransportDetectingLink(
  detected: DetectedTransport,
  events: LinkEvents,
  openStreamable: (events: LinkEvents) => UpstreamLink,
  openSse: (events: LinkEvents) => UpstreamLink,
): UpstreamLink {
  let link: UpstreamLink | undefined;
  const current = (): UpstreamLink =>
    (link ??= detected.transport === "sse" ? openSse(events) : openStreamable(events));
  /** A failed attempt is not the end of the session. */
  let isTrying = false;
  const trying: LinkEvents = {
    ...events,
    closed: (error) => {
      if (!isTrying) events.closed(error);
    },
  };

  async function initialize(first: UpstreamLink, exchange: Exchange): Promise<Reply> {
    let refused: Reply;
    try {
      const reply = await first.request(exchange);
      // Some endpoints of HTTP+SSE refuse a POST with a JSON-RPC error in the body.
      if (reply.message?.kind !== "error") {
        detected.transport = "streamable-http";
        return reply;
      }
      refused = reply;
    } catch (error) {
      const failure = GatewayError.from(error);
      if (!unknownPost.has(failure.details?.["upstreamStatus"])) throw failure;
      const reply = await initializeOverSse(first, exchange);
      if (reply === undefined) throw failure;
      return reply;
    }
    return (await initializeOverSse(first, exchange)) ?? refused;
  }

  /** Undefined if it speaks neither: then the answer to the newer transport is the better clue. */
  async function initializeOverSse(first: UpstreamLink, exchange: Exchange): Promise<Reply | undefined> {
    isTrying = true;
    const older = openSse(trying);
    try {
      const reply = await older.request(exchange);
      detected.transport = "sse";
      link = older;
      await first.close("the upstream speaks HTTP+SSE");
      return reply;
    } catch {
      await older.close("the upstream does not speak HTTP+SSE");
      return undefined;
    } finally {
      isTrying = false;
    }
  }

  function request(exchange: Exchange): Promise<Reply> {
    const first = current();
    return detected.transport !== undefined || exchange.message.method !== "initialize"
      ? first.request(exchange)
      : initialize(first, exchange);
  }

  return {
    get incarnation() {
      return current().incarnation;
    },
    get hasBackpressure() {
      return link?.hasBackpressure ?? false;
    },
    get upstreamSession() {
      return link?.upstreamSession;
    },
    get resolvedLink() {
      return detected.transport === undefined || isTrying ? undefined : current();
    },
    request,
    requestWithCallback: (exchange, call) => {
      if (exchange.message.method === "initialize") settleCallback(request(exchange), call);
      else requestWithCallback(current(), exchange, call);
    },
    send: (exchange) => current().send(exchange),
    listen: () => link?.listen(),
    resume: (resumed) => {
      // Only Streamable HTTP has sessions that can be resumed.
      if (detected.transport === "sse" || current().resume?.(resumed) !== true) return false;
      detected.transport = "streamable-http";
      return true;
    },
    close: async (reason, isKept) => {
      await link?.close(reason, isKept);
    },
  };
}
