import { GatewayError } from "../../errors.ts";
import type { Exchange } from "../../core/exchange.ts";
import type { Reply } from "../../core/pipeline.ts";
import { type LinkEvents, requestWithCallback, settleCallback, type UpstreamLink } from "../../transports/transport.ts";

/** Which of the two HTTP transports an upstream turned out to speak. */
export interface DetectedTransport {
  transport: "streamable-http" | "sse" | undefined;
}

/** Answers to a POST of `initialize` that an endpoint for HTTP+SSE would give (MCP 2025-03-26, Backwards Compatibility). */
const unknownPost: ReadonlySet<unknown> = new Set([400, 404, 405]);

/**
 * A link that finds out with the handshake whether the upstream speaks Streamable HTTP or the older HTTP+SSE. What it
 * finds is kept for all links of the route.
 */
export function createTransportDetectingLink(
  verdict: DetectedTransport,
  events: LinkEvents,
  openStreamable: (events: LinkEvents) => UpstreamLink,
  openSse: (events: LinkEvents) => UpstreamLink,
): UpstreamLink {
  let link: UpstreamLink | undefined;
  const current = (): UpstreamLink => (link ??= verdict.transport === "sse" ? openSse(events) : openStreamable(events));
  /** A try that fails must not be taken for the end of the session. */
  let isTrying = false;
  const trying: LinkEvents = {
    ...events,
    closed: (error) => {
      if (!isTrying) events.closed(error);
    },
  };

  async function shakeHands(first: UpstreamLink, exchange: Exchange): Promise<Reply> {
    try {
      const reply = await first.request(exchange);
      verdict.transport = "streamable-http";
      return reply;
    } catch (error) {
      const failure = GatewayError.from(error);
      if (!unknownPost.has(failure.details?.["upstreamStatus"])) throw failure;
      isTrying = true;
      const older = openSse(trying);
      try {
        const reply = await older.request(exchange);
        verdict.transport = "sse";
        link = older;
        await first.close("the upstream speaks HTTP+SSE");
        return reply;
      } catch {
        // It speaks neither; what it said to the newer one is the better clue.
        await older.close("the upstream does not speak HTTP+SSE");
        throw failure;
      } finally {
        isTrying = false;
      }
    }
  }

  function request(exchange: Exchange): Promise<Reply> {
    const first = current();
    return verdict.transport !== undefined || exchange.message.method !== "initialize"
      ? first.request(exchange)
      : shakeHands(first, exchange);
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
      return verdict.transport === undefined || isTrying ? undefined : current();
    },
    request,
    requestWithCallback: (exchange, call) => {
      if (exchange.message.method === "initialize") settleCallback(request(exchange), call);
      else requestWithCallback(current(), exchange, call);
    },
    send: (exchange) => current().send(exchange),
    listen: () => link?.listen(),
    close: async (reason) => {
      await link?.close(reason);
    },
  };
}
