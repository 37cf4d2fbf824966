import { GatewayError } from "../../src/errors.ts";
import type { CancelReason } from "../../src/core/cancellation.ts";
import type { Exchange } from "../../src/core/exchange.ts";
import { noReply, type Reply } from "../../src/core/pipeline.ts";
import { cancelledError, type LinkEvents, type UpstreamLink } from "../../src/transports/transport.ts";
import { valueOf } from "./exchange.ts";
import { messageOf } from "./messages.ts";

/** A request that came to a fake link, with the ways to answer it. */
export interface LinkRequest {
  readonly exchange: Exchange;
  readonly method: string;
  readonly id: unknown;
  readonly params: Readonly<Record<string, unknown>>;
  /** Why nobody waits for the answer any more. */
  readonly cancelled: () => CancelReason | undefined;
  readonly reply: (result: unknown) => void;
  readonly refuse: (error: unknown, status?: number) => void;
  readonly fail: (error: GatewayError) => void;
  /** Sends a notification on the stream of this request; resolves when it has been dealt with. */
  readonly say: (method: string, params?: unknown) => Promise<void>;
}

/** The far end of a link, in the hands of a test. */
export interface FakeLink {
  readonly open: (events: LinkEvents) => UpstreamLink;
  readonly events: () => LinkEvents;
  /** Every request so far. */
  readonly requests: readonly LinkRequest[];
  /** Everything else that was sent, as values. */
  readonly sent: readonly unknown[];
  readonly closed: () => string | undefined;
  /** The next request of that method that nobody has taken yet; throws when there is none. */
  readonly take: (method: string) => LinkRequest;
}

/** Makes a link that answers what a test says, request by request. */
export function fakeLink(): FakeLink {
  const requests: LinkRequest[] = [];
  const untaken = new Set<LinkRequest>();
  const sent: unknown[] = [];
  let heard: LinkEvents | undefined;
  let closed: string | undefined;
  const events = (): LinkEvents => {
    if (heard === undefined) throw new Error("the link is not open");
    return heard;
  };

  function request(exchange: Exchange): Promise<Reply> {
    return new Promise((resolve, reject) => {
      const { message, cancellation } = exchange;
      const { id, params } = valueOf(message) as { id: unknown; params?: Record<string, unknown> };
      const answer = (body: object, status?: number): void => {
        const reply = { message: messageOf({ jsonrpc: "2.0", id, ...body }) };
        resolve(status === undefined ? reply : { ...reply, status });
      };
      cancellation.onCancel((reason) => {
        reject(cancelledError(reason));
      });
      const received: LinkRequest = {
        exchange,
        method: message.method ?? "",
        id,
        params: params ?? {},
        cancelled: () => cancellation.reason,
        reply: (result) => {
          answer({ result }, 200);
        },
        refuse: (error, status) => {
          answer({ error }, status);
        },
        fail: reject,
        say: async (method, said) => {
          const notice = messageOf({
            jsonrpc: "2.0",
            method,
            ...(said === undefined ? {} : { params: said }),
          });
          await events().message(notice, exchange, { type: "sse", stream: "fake" });
        },
      };
      requests.push(received);
      untaken.add(received);
    });
  }

  return {
    open: (given) => {
      heard = given;
      return {
        incarnation: "fake",
        upstreamSession: undefined,
        hasBackpressure: true,
        request,
        send: async (exchange) => {
          sent.push(valueOf(exchange.message));
          return noReply;
        },
        listen: () => {},
        close: async (reason) => {
          closed = reason;
        },
      };
    },
    events,
    requests,
    sent,
    closed: () => closed,
    take: (method) => {
      for (const received of untaken) {
        if (received.method !== method) continue;
        untaken.delete(received);
        return received;
      }
      const known = requests.map((each) => each.method).join(", ");
      throw new GatewayError("internal", `no request ${method} is there; there were: ${known}`);
    },
  };
}
