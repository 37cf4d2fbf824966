import type { Exchange, TransportContext } from "../../core/exchange.ts";
import type { Reply } from "../../core/pipeline.ts";
import { resultMessage } from "../../core/reply.ts";
import { createNotification, synthesizeMessage, withReplacements } from "../../core/synthesize.ts";
import { GatewayError } from "../../errors.ts";
import { isObject } from "../../lib/is-object.ts";
import { loggingLevels } from "../../protocol/envelope.ts";
import { editObject, insertMember } from "../../protocol/json/edit.ts";
import { spanOf } from "../../protocol/json/outline.ts";
import { memberString, memberValue, typeAt } from "../../protocol/json/read.ts";
import { type Message, messageBytes, replaceIds, type RequestId, type RequestMessage } from "../../protocol/message.ts";
import { metadataOf } from "../../protocol/metadata.ts";
import type { Capabilities } from "../../protocol/methods.ts";
import { cancelledError, type LinkEvents, untilCancelled } from "../../transports/transport.ts";
import type { LegacySession } from "./legacy-session.ts";
import { serverInfoKey } from "./modern-result.ts";

/** Bounds of the subscriptions of one scope. */
export interface SubscriptionLimits {
  /** Open at once. */
  readonly subscriptions: number;
  /** Notifications that may wait for one slow client. */
  readonly undelivered: number;
}

interface Listener {
  readonly exchange: Exchange;
  readonly request: RequestMessage;
  readonly filter: SubscriptionFilter;
  /** Ends it with its result, or with an error. */
  readonly end: (failure?: GatewayError) => void;
  /** Resolves when everything so far is delivered; the acknowledgement comes first. */
  delivered: Promise<void>;
  undelivered: number;
}

const subscriptionKey = "io.modelcontextprotocol/subscriptionId";
const inProcess: TransportContext = { type: "in-process" };

/** Makes the subscriptions of a scope; they use its primary session. */
export function createListenSubscriptions(session: LegacySession, events: LinkEvents, limits: SubscriptionLimits) {
  const listeners = new Set<Listener>();
  const subscriptions = createResourceSubscriptions(session, (error) => events.error(error));

  async function listen(exchange: Exchange, request: RequestMessage): Promise<Reply> {
    if (listeners.size >= limits.subscriptions) throw new GatewayError("overloaded", "too many subscriptions are open");
    const facts = await untilCancelled(exchange.cancellation, session.ready(exchange));
    const wanted = honouredFilter(request, facts.capabilities);
    if (wanted === undefined) throw new GatewayError("invalid_params", "params.notifications must be an object");
    // Subscribes before acknowledging, so that no change after the acknowledgement is lost.
    await untilCancelled(exchange.cancellation, session.listen());
    const uris = await subscriptions.join(wanted.uris);
    const filter = { changes: wanted.changes, uris };
    const result = resultMessage(request.id, listenResult(request.id, facts.serverInfo));
    return new Promise<Reply>((resolve, reject) => {
      let off = (): void => {};
      const listener: Listener = {
        exchange,
        request,
        filter,
        delivered: Promise.resolve(),
        undelivered: 0,
        end: (failure) => {
          if (!listeners.delete(listener)) return;
          off();
          subscriptions.leave(filter.uris);
          if (failure !== undefined) reject(failure);
          // After what is still being delivered.
          else void listener.delivered.then(() => resolve({ message: result }));
        },
      };
      listeners.add(listener);
      // MCP 2026-07-28, Subscriptions: the first message says which part of the filter is honoured.
      const params = `{"_meta":${subscriptionMeta(request.id)},"notifications":${formatFilter(filter)}}`;
      tell(listener, createNotification("notifications/subscriptions/acknowledged", params), inProcess);
      off = exchange.cancellation.onCancel((reason) => listener.end(cancelledError(reason)));
      if (isEmptyFilter(filter)) listener.end();
    });
  }

  function tell(listener: Listener, message: Message, context: TransportContext): void {
    if (listener.undelivered >= limits.undelivered) {
      listener.end(new GatewayError("overloaded", "the client reads its notifications too slowly"));
      return;
    }
    listener.undelivered++;
    const deliver = async (): Promise<void> => {
      await events.message(message, listener.exchange, context);
      listener.undelivered--;
    };
    listener.delivered = listener.delivered.then(deliver).catch((error: unknown) => {
      listener.undelivered--;
      events.error(GatewayError.from(error));
    });
  }

  return {
    get size(): number {
      return listeners.size;
    },
    /** Serves one request; resolves when the subscription ends. */
    listen,
    /** Sends a change notification to every subscription whose filter matches. */
    publish: (notification: Message, context: TransportContext): void => {
      for (const listener of listeners) {
        if (matchesFilter(listener.filter, notification))
          tell(listener, withSubscriptionId(notification, listener.request.id), context);
      }
    },
    /** Subscribes again, after the server lost its session. */
    renew: () => subscriptions.renew(),
    /** Ends all subscriptions with a result; their clients subscribe again and refetch. */
    endAll: (): void => {
      subscriptions.forget();
      for (const listener of listeners) listener.end();
    },
  };
}

/** The notification with its subscription id, written as the client wrote it. */
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

interface ResourceSubscription {
  listeners: number;
  isAccepted: Promise<boolean>;
}

function createResourceSubscriptions(session: LegacySession, onError: (error: GatewayError) => void) {
  const byUri = new Map<string, ResourceSubscription>();

  function send(method: string, uri: string): Promise<boolean> {
    return session.sendRequest(method, JSON.stringify({ uri })).then(
      () => true,
      (error: unknown) => {
        onError(GatewayError.from(error));
        return false;
      },
    );
  }

  function leave(uri: string): void {
    const subscription = byUri.get(uri);
    if (subscription === undefined || --subscription.listeners > 0) return;
    byUri.delete(uri);
    // After the server has answered, to keep the order; by then there may be a new subscription.
    void subscription.isAccepted.then(async (isAccepted) => {
      if (isAccepted && !byUri.has(uri)) await send("resources/unsubscribe", uri);
    });
  }

  async function join(uri: string): Promise<boolean> {
    let subscription = byUri.get(uri);
    if (subscription === undefined) {
      subscription = { listeners: 0, isAccepted: send("resources/subscribe", uri) };
      byUri.set(uri, subscription);
    }
    subscription.listeners++;
    const isAccepted = await subscription.isAccepted;
    if (!isAccepted) leave(uri);
    return isAccepted;
  }

  return {
    /** Subscribes; resolves with the resources that the server accepted. */
    join: async (uris: readonly string[]): Promise<readonly string[]> => {
      const accepted = await Promise.all(uris.map((uri) => join(uri)));
      return uris.filter((_, index) => accepted[index]);
    },
    /** Ends subscriptions; the last one for a resource unsubscribes at the server. */
    leave: (uris: readonly string[]): void => {
      for (const uri of uris) leave(uri);
    },
    /** Subscribes to everything again. */
    renew: (): void => {
      for (const [uri, subscription] of byUri) subscription.isAccepted = send("resources/subscribe", uri);
    },
    /** Forgets everything, after the server is gone. */
    forget: () => byUri.clear(),
  };
}

/** List changes: the member of the filter, the notification, and the capability. */
const listChanges = [
  ["toolsListChanged", "notifications/tools/list_changed", "tools"],
  ["promptsListChanged", "notifications/prompts/list_changed", "prompts"],
  ["resourcesListChanged", "notifications/resources/list_changed", "resources"],
] as const;

const resourceUpdated = "notifications/resources/updated";

interface SubscriptionFilter {
  /** Methods of list changes. */
  readonly changes: ReadonlySet<string>;
  readonly uris: readonly string[];
}

/** The part of a filter that a server with these capabilities can honour; undefined when there is no filter. */
function honouredFilter(request: RequestMessage, capabilities: Capabilities): SubscriptionFilter | undefined {
  const wanted: unknown = memberValue(request, "params.notifications");
  if (!isObject(wanted)) return undefined;
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

/** The JSON text of a filter, for the acknowledgement. */
function formatFilter({ changes, uris }: SubscriptionFilter): string {
  const members = listChanges.filter(([, method]) => changes.has(method)).map(([member]) => [member, true]);
  return JSON.stringify({
    ...Object.fromEntries(members),
    ...(uris.length === 0 ? {} : { resourceSubscriptions: uris }),
  });
}

function isEmptyFilter({ changes, uris }: SubscriptionFilter): boolean {
  return changes.size === 0 && uris.length === 0;
}

/** Whether a notification is sent only to subscriptions. */
export function isChangeNotification({ method }: Message): boolean {
  return method === resourceUpdated || listChanges.some(([, name]) => name === method);
}

/** Whether a filter matches a notification; an update may be of a resource below the subscribed one. */
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
  return isObject(declared) && declared[detail] === true;
}

/** Index of the lowest log level that a modern request wants; -1 if it wants no log messages. */
export function requestedLogLevel(request: RequestMessage): number {
  return levelIndex(memberString(request, "params._meta.io.modelcontextprotocol/logLevel"));
}

/**
 * A legacy server's notification as the client's request gets it: progress under the client's token, log messages from
 * the requested level on (MCP 2026-07-28, Progress and Logging). Undefined where the request does not want it.
 */
export function toClientNotification(request: RequestMessage, notification: Message): Message | undefined {
  if (notification.method === "notifications/progress") {
    const { progressToken } = metadataOf(request);
    return progressToken === undefined
      ? undefined
      : replaceIds(notification, [{ name: "params.progressToken", id: progressToken }]);
  }
  if (notification.method === "notifications/message") {
    const level = requestedLogLevel(request);
    return level >= 0 && levelIndex(memberString(notification, "params.level")) >= level ? notification : undefined;
  }
  return notification;
}

function levelIndex(text: string | undefined): number {
  return text === undefined ? -1 : loggingLevels.findIndex((level) => level === text);
}

/** How much is buffered while no request of the client is open. */
export interface BufferLimits {
  readonly bufferedNotifications: number;
  readonly bufferedBytes: number;
}

interface BufferedNotification {
  readonly bytes: Buffer;
  readonly context: TransportContext;
}

/** The notifications of a suspended call; when there are too many, the oldest are dropped. */
export class BufferedNotifications {
  readonly #limits: BufferLimits;
  #buffered: BufferedNotification[] = [];
  #bytes = 0;

  constructor(limits: BufferLimits) {
    this.#limits = limits;
  }

  get size(): number {
    return this.#buffered.length;
  }

  add(message: Message, context: TransportContext): void {
    // A copy, because the message may be a small part of a large network buffer.
    const bytes = Buffer.from(messageBytes(message));
    this.#buffered.push({ bytes, context });
    this.#bytes += bytes.length;
    const { bufferedNotifications, bufferedBytes } = this.#limits;
    while (this.#buffered.length > bufferedNotifications || this.#bytes > bufferedBytes)
      this.#bytes -= this.#buffered.shift()?.bytes.length ?? 0;
  }

  /** Removes and returns all of them, oldest first. */
  take(): readonly { readonly message: Message; readonly context: TransportContext }[] {
    const buffered = this.#buffered;
    this.#buffered = [];
    this.#bytes = 0;
    return buffered.map(({ bytes, context }) => ({ message: synthesizeMessage(bytes), context }));
  }
}
