import { GatewayError } from "../../errors.ts";
import type { Exchange, TransportContext } from "../../exchange.ts";
import type { Reply } from "../../pipeline.ts";
import { spanOf } from "../../protocol/json/outline.ts";
import { typeAt } from "../../protocol/json/read.ts";
import { insertMember } from "../../protocol/json/splice.ts";
import type { Message, RequestId, RequestMessage } from "../../protocol/message.ts";
import { resultMessage } from "../../reply.ts";
import { cancelledError } from "../../transports/cancel.ts";
import { untilCancelled } from "./until-cancelled.ts";
import type { LinkEvents } from "../../transports/transport.ts";
import type { LegacySession } from "./legacy-peer.ts";
import { serverInfoKey } from "./modern-result.ts";
import { editObject } from "../object-edit.ts";
import { createNotification, synthesizeMessage, withReplacements } from "../own-messages.ts";
import { createResourceSubscriptions } from "./resource-subscriptions.ts";
import { honouredFilter, formatFilter, isEmptyFilter, matchesFilter } from "./subscription-filter.ts";
import type { SubscriptionFilter } from "./subscription-filter.ts";

/** Bounds of the listens of one scope. */
export interface SubscriptionLimits {
  /** Open at once. */
  readonly subscriptions: number;
  /** Notifications that may wait for one slow listener. */
  readonly undelivered: number;
}

/** The `subscriptions/listen` requests of a scope, served from what a legacy server says unasked. */
export interface ListenSubscriptions {
  readonly size: number;
  /** Serves one; resolves when it ends. */
  listen(exchange: Exchange, request: RequestMessage): Promise<Reply>;
  /** Tells everybody who wants to know of a change. */
  publish(notification: Message, context: TransportContext): void;
  /** The server has forgotten what it was asked to watch. */
  renew(): void;
  /** Ends all of them in good order: their clients fetch anew what they missed. */
  endAll(): void;
}

interface Listener {
  readonly exchange: Exchange;
  readonly request: RequestMessage;
  readonly filter: SubscriptionFilter;
  /** Ends it with its result, or with a failure. */
  readonly end: (failure?: GatewayError) => void;
  /** Messages go out one after the other, the acknowledgement first. */
  turn: Promise<void>;
  undelivered: number;
}

const subscriptionKey = "io.modelcontextprotocol/subscriptionId";
const ownContext: TransportContext = { type: "in-process" };

/** Makes the listens of a scope; they live on its first session. */
export function createListenSubscriptions(
  peer: LegacySession,
  events: LinkEvents,
  limits: SubscriptionLimits,
): ListenSubscriptions {
  const listeners = new Set<Listener>();
  const subscriptions = createResourceSubscriptions(peer, (error) => {
    events.error(error);
  });

  async function listen(exchange: Exchange, request: RequestMessage): Promise<Reply> {
    if (listeners.size >= limits.subscriptions)
      throw new GatewayError("overloaded", "too many subscriptions are open");
    const facts = await untilCancelled(exchange, peer.ready(exchange));
    const wanted = honouredFilter(request, facts.capabilities);
    if (wanted === undefined)
      throw new GatewayError("invalid_params", "params.notifications must be an object");
    // Nothing is promised before it can be heard: a change right behind the acknowledgement would be lost.
    await untilCancelled(exchange, peer.listen());
    const uris = await subscriptions.join(wanted.uris);
    const filter = { changes: wanted.changes, uris };
    const result = resultMessage(request.id, listenResult(request.id, facts.serverInfo));
    return new Promise<Reply>((resolve, reject) => {
      let off = (): void => {};
      const listener: Listener = {
        exchange,
        request,
        filter,
        turn: Promise.resolve(),
        undelivered: 0,
        end: (failure) => {
          if (!listeners.delete(listener)) return;
          off();
          subscriptions.leave(filter.uris);
          if (failure !== undefined) reject(failure);
          // What is on its way goes first.
          else void listener.turn.then(() => resolve({ message: result }));
        },
      };
      listeners.add(listener);
      // MCP 2026-07-28, Subscriptions: the first message of a subscription says what of it is honoured.
      const params = `{"_meta":${subscriptionMeta(request.id)},"notifications":${formatFilter(filter)}}`;
      tell(listener, createNotification("notifications/subscriptions/acknowledged", params), ownContext);
      off = exchange.cancellation.onCancel((reason) => {
        listener.end(cancelledError(reason));
      });
      if (isEmptyFilter(filter)) listener.end();
    });
  }

  function tell(listener: Listener, message: Message, context: TransportContext): void {
    if (listener.undelivered >= limits.undelivered) {
      listener.end(new GatewayError("overloaded", "the client takes its notifications too slowly"));
      return;
    }
    listener.undelivered++;
    const deliver = async (): Promise<void> => {
      await events.message(message, listener.exchange, context);
      listener.undelivered--;
    };
    listener.turn = listener.turn.then(deliver).catch((error: unknown) => {
      listener.undelivered--;
      events.error(GatewayError.from(error));
    });
  }

  return {
    get size() {
      return listeners.size;
    },
    listen,
    publish: (notification, context) => {
      for (const listener of listeners) {
        if (matchesFilter(listener.filter, notification))
          tell(listener, withSubscriptionId(notification, listener.request.id), context);
      }
    },
    renew: () => {
      subscriptions.renew();
    },
    endAll: () => {
      subscriptions.forget();
      for (const listener of listeners) listener.end();
    },
  };
}

/** The notification with the subscription it comes on; the id is written as the client wrote it. */
function withSubscriptionId(notification: Message, id: RequestId): Message {
  const { bytes, outline } = notification;
  const params = spanOf(outline, "params");
  if (params === undefined) {
    const json = `{"_meta":${subscriptionMeta(id)}}`;
    return synthesizeMessage(insertMember(bytes, outline, outline, "params", json));
  }
  const meta = spanOf(outline, "params._meta");
  const kept = meta !== undefined && typeAt(bytes, meta.start) === "object" ? meta : undefined;
  const stampedMeta =
    kept === undefined
      ? subscriptionMeta(id)
      : editObject(bytes, kept, (name) => (name === subscriptionKey ? "drop" : "keep"), [
          [subscriptionKey, id.json],
        ]);
  const edited = editObject(bytes, params, (name) => (name === "_meta" ? "drop" : "keep"), [
    ["_meta", stampedMeta],
  ]);
  return withReplacements(notification, [{ span: params, bytes: edited }]);
}

function subscriptionMeta(id: RequestId): string {
  return `{${JSON.stringify(subscriptionKey)}:${id.json}}`;
}

function listenResult(id: RequestId, serverInfo: string): string {
  const meta = `{${JSON.stringify(subscriptionKey)}:${id.json},${JSON.stringify(serverInfoKey)}:${serverInfo}}`;
  return `{"resultType":"complete","_meta":${meta}}`;
}
