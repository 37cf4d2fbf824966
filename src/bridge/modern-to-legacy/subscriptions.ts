import { GatewayError } from "../../errors.ts";
import type { Exchange, TransportContext } from "../../core/exchange.ts";
import type { Reply } from "../../core/pipeline.ts";
import { spanOf } from "../../protocol/json/outline.ts";
import { memberString, memberType, memberValue, typeAt } from "../../protocol/json/read.ts";
import { insertMember } from "../../protocol/json/edit.ts";
import type { Message, RequestId, RequestMessage } from "../../protocol/message.ts";
import { resultMessage } from "../../core/reply.ts";
import { cancelledError, type LinkEvents } from "../../transports/transport.ts";
import { untilCancelled } from "../until-cancelled.ts";
import type { LegacySession } from "./legacy-session.ts";
import { serverInfoKey } from "./modern-result.ts";
import { editObject } from "../../protocol/json/edit.ts";
import { createNotification, synthesizeMessage, withReplacements } from "../synthesize.ts";
import type { Capabilities } from "../../protocol/methods.ts";

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
    if (listeners.size >= limits.subscriptions) throw new GatewayError("overloaded", "too many subscriptions are open");
    const facts = await untilCancelled(exchange.cancellation, peer.ready(exchange));
    const wanted = honouredFilter(request, facts.capabilities);
    if (wanted === undefined) throw new GatewayError("invalid_params", "params.notifications must be an object");
    // Nothing is promised before it can be heard: a change right behind the acknowledgement would be lost.
    await untilCancelled(exchange.cancellation, peer.listen());
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
      : editObject(bytes, kept, (name) => (name === subscriptionKey ? "remove" : "keep"), [[subscriptionKey, id.json]]);
  const edited = editObject(bytes, params, (name) => (name === "_meta" ? "remove" : "keep"), [["_meta", stampedMeta]]);
  return withReplacements(notification, [{ span: params, bytes: edited }]);
}

function subscriptionMeta(id: RequestId): string {
  return `{${JSON.stringify(subscriptionKey)}:${id.json}}`;
}

function listenResult(id: RequestId, serverInfo: string): string {
  const meta = `{${JSON.stringify(subscriptionKey)}:${id.json},${JSON.stringify(serverInfoKey)}:${serverInfo}}`;
  return `{"resultType":"complete","_meta":${meta}}`;
}

/** Resources that somebody listens to; the server is asked once for each, however many listen. */
export interface ResourceSubscriptions {
  /** Begins to listen; resolves with those of them that the server agreed to watch. */
  join(uris: readonly string[]): Promise<readonly string[]>;
  /** Ends listening; the server is told of what nobody listens to any more. */
  leave(uris: readonly string[]): void;
  /** Asks for everything again, because the server has forgotten it. */
  renew(): void;
  /** Forgets everything, because there is no server any more that could be told. */
  forget(): void;
}

interface ResourceSubscription {
  listeners: number;
  isAgreed: Promise<boolean>;
}

/** Makes the subscriptions of one legacy session. */
function createResourceSubscriptions(
  peer: LegacySession,
  onTrouble: (error: GatewayError) => void,
): ResourceSubscriptions {
  const byUri = new Map<string, ResourceSubscription>();

  function tell(method: string, uri: string): Promise<boolean> {
    return peer.sendRequest(method, JSON.stringify({ uri })).then(
      () => true,
      (error: unknown) => {
        onTrouble(GatewayError.from(error));
        return false;
      },
    );
  }

  function leave(uri: string): void {
    const subscription = byUri.get(uri);
    if (subscription === undefined || --subscription.listeners > 0) return;
    byUri.delete(uri);
    // After the server has agreed, or it could hear the two in the wrong order; then somebody may listen again.
    void subscription.isAgreed.then(async (isAgreed) => {
      if (isAgreed && !byUri.has(uri)) await tell("resources/unsubscribe", uri);
    });
  }

  async function join(uri: string): Promise<boolean> {
    let subscription = byUri.get(uri);
    if (subscription === undefined) {
      subscription = { listeners: 0, isAgreed: tell("resources/subscribe", uri) };
      byUri.set(uri, subscription);
    }
    subscription.listeners++;
    const isAgreed = await subscription.isAgreed;
    if (!isAgreed) leave(uri);
    return isAgreed;
  }

  return {
    join: async (uris) => {
      const agreed = await Promise.all(uris.map((uri) => join(uri)));
      return uris.filter((_, index) => agreed[index]);
    },
    leave: (uris) => {
      for (const uri of uris) leave(uri);
    },
    renew: () => {
      for (const [uri, subscription] of byUri) subscription.isAgreed = tell("resources/subscribe", uri);
    },
    forget: () => {
      byUri.clear();
    },
  };
}

/** The list changes that a listen may ask for: its member, the notification, and the capability behind it. */
const listChanges = [
  ["toolsListChanged", "notifications/tools/list_changed", "tools"],
  ["promptsListChanged", "notifications/prompts/list_changed", "prompts"],
  ["resourcesListChanged", "notifications/resources/list_changed", "resources"],
] as const;

const resourceUpdated = "notifications/resources/updated";

/** What a listen wants to hear. */
export interface SubscriptionFilter {
  /** Methods of list changes. */
  readonly changes: ReadonlySet<string>;
  readonly uris: readonly string[];
}

/** The part of a listen's filter that a server with these capabilities can honour; undefined when there is no filter. */
function honouredFilter(request: RequestMessage, capabilities: Capabilities): SubscriptionFilter | undefined {
  if (memberType(request, "params.notifications") !== "object") return undefined;
  // The check above has seen that it is an object.
  const wanted = memberValue(request, "params.notifications") as Readonly<Record<string, unknown>>;
  const changes = listChanges.filter(
    ([member, , capability]) => wanted[member] === true && hasCapabilityFlag(capabilities, capability, "listChanged"),
  );
  const uris: unknown = wanted["resourceSubscriptions"];
  const isSubscribable = Array.isArray(uris) && hasCapabilityFlag(capabilities, "resources", "subscribe");
  return {
    changes: new Set(changes.map(([, method]) => method)),
    uris: isSubscribable ? [...new Set(uris.filter((uri) => typeof uri === "string"))] : [],
  };
}

/** The text of the honoured filter, for the acknowledgement. */
function formatFilter({ changes, uris }: SubscriptionFilter): string {
  const members = listChanges.filter(([, method]) => changes.has(method)).map(([member]) => [member, true]);
  return JSON.stringify({
    ...Object.fromEntries(members),
    ...(uris.length === 0 ? {} : { resourceSubscriptions: uris }),
  });
}

/** Whether nothing is wanted, or nothing can be had. */
function isEmptyFilter({ changes, uris }: SubscriptionFilter): boolean {
  return changes.size === 0 && uris.length === 0;
}

/** Whether a notification is one that listens can be about. */
export function isChangeNotification({ method }: Message): boolean {
  return method === resourceUpdated || listChanges.some(([, name]) => name === method);
}

/** Whether a filter lets a notification through; updates may be of something below what was subscribed to. */
function matchesFilter({ changes, uris }: SubscriptionFilter, notification: Message): boolean {
  const { method } = notification;
  if (method !== resourceUpdated) return method !== undefined && changes.has(method);
  const updated = memberString(notification, "params.uri");
  return updated !== undefined && uris.some((uri) => isBelow(updated, uri));
}

function isBelow(uri: string, above: string): boolean {
  if (!uri.startsWith(above)) return false;
  return uri.length === above.length || above.endsWith("/") || "/?#".includes(uri.charAt(above.length));
}

function hasCapabilityFlag(capabilities: Capabilities, name: string, detail: string): boolean {
  const declared = capabilities[name];
  return typeof declared === "object" && declared !== null && Reflect.get(declared, detail) === true;
}
