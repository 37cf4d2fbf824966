import { Cancellation } from "../core/cancellation.ts";
import type { Exchange, TransportContext } from "../core/exchange.ts";
import type { Reply } from "../core/pipeline.ts";
import { resultMessage } from "../core/reply.ts";
import { GatewayError } from "../errors.ts";
import { isObject } from "../lib/is-object.ts";
import type { FindingCode } from "../protocol/diagnostics.ts";
import { memberValue } from "../protocol/json/read.ts";
import { type Message, replaceIds, type RequestMessage } from "../protocol/message.ts";
import { cancelledError, type UpstreamLink } from "../transports/transport.ts";
import { ChangeNotices } from "./lists/change-notices.ts";
import type { Federation } from "./federation.ts";
import type { ListFacts } from "./names/list-facts.ts";
import type { CatalogueEntry } from "./lists/catalogue-entries.ts";
import { taskTarget, withAdvertisedTasks } from "./names/member-messages.ts";
import type { MemberOptions } from "./names/member-options.ts";
import { advertisedUri, withAdvertisedUris } from "./names/member-uris.ts";
import { createOwnExchange, createOwnNotification, createOwnRequest } from "./member-requests.ts";
import type { Router } from "./router.ts";
import { serverInfoOf } from "./server-facts.ts";

export interface ListensDeps {
  readonly federation: Federation;
  readonly linkOf: (member: MemberOptions, exchange: Exchange) => UpstreamLink;
  /** Sends a message to the client of a listen request. */
  readonly deliver: (message: Message, related: Exchange, member: string | undefined) => void | Promise<void>;
  readonly dropped: (why: FindingCode, message: Message, context: TransportContext) => void;
  readonly lists: Pick<Router, "wholeList" | "isVisible">;
  readonly expire: (member: string, capability: string) => void;
  readonly onError: (error: GatewayError) => void;
}

/** A `subscriptions/listen` request of a client. */
interface Listen {
  readonly exchange: Exchange;
  readonly request: RequestMessage;
  readonly changes: ChangeNotices;
  members: ListeningMember[];
  readonly wanted: Readonly<Record<string, unknown>>;
  readonly honoured: HonouredFilter;
  /** Whether the lists were read before the client's subscription was acknowledged. */
  isRemembered: boolean;
  isAcknowledged: boolean;
}

/** The part of a listen request that one member serves. */
interface ListeningMember {
  readonly listen: Listen;
  readonly member: MemberOptions;
  readonly filter: Readonly<Record<string, unknown>>;
  exchange: Exchange | undefined;
  isAcknowledged: boolean;
  /** Whether the member rejected the whole filter, so there is nothing to wait for. */
  hasNothing: boolean;
  retries: number;
  stopRetry: (() => void) | undefined;
}

interface HonouredFilter {
  readonly lists: Set<string>;
  readonly uris: string[];
  readonly tasks: string[];
}

const listKeys: Readonly<Record<string, string>> = {
  toolsListChanged: "tools",
  promptsListChanged: "prompts",
  resourcesListChanged: "resources",
};
const subscriptionKey = "io.modelcontextprotocol/subscriptionId";
const firstRetryMs = 1000;
const lastRetryMs = 60_000;

/** The listen requests of modern clients: each is split among the members, and their notifications are merged. */
export class Listens {
  readonly #deps: ListensDeps;
  readonly #open = new Set<Listen>();
  /** By the exchange that was sent to the member. */
  readonly #byExchange = new Map<Exchange, ListeningMember>();

  constructor(deps: ListensDeps) {
    this.#deps = deps;
  }

  get size(): number {
    return this.#open.size;
  }

  /** Whether a message came on the stream of a listen request. */
  owns(related: Exchange | undefined): related is Exchange {
    return related !== undefined && this.#byExchange.has(related);
  }

  /** Serves one request; resolves or rejects when it is over. */
  async listen(exchange: Exchange, request: RequestMessage): Promise<Reply> {
    const wanted: unknown = memberValue(request, "params.notifications");
    if (!isObject(wanted)) throw new GatewayError("invalid_params", "params.notifications must be an object");
    const filters = this.#split(exchange, wanted);
    const { federation, lists } = this.#deps;
    const listen: Listen = {
      exchange,
      request,
      changes: new ChangeNotices({
        setTimer: federation.setTimer,
        turn: federation.turn,
        read: (facts) => lists.wholeList(exchange, facts),
        isVisible: (facts, entries) => lists.isVisible(exchange, facts, entries),
        tell: (capability) => {
          this.#tell(listen, `notifications/${capability}/list_changed`, [], undefined);
        },
      }),
      members: [],
      wanted,
      // Changes by members that come or go are detected here, so every list is honoured.
      honoured: {
        lists: new Set(Object.keys(listKeys).filter((key) => wanted[key] === true)),
        uris: [],
        tasks: [],
      },
      isRemembered: false,
      isAcknowledged: false,
    };
    listen.members = [...filters].map(([member, filter]) => partOf(listen, member, filter));
    this.#open.add(listen);
    return new Promise<Reply>((resolve, reject) => {
      const stopWaiting = federation.setTimer(federation.options.listing.wait, () => {
        this.#acknowledge(listen);
      });
      exchange.cancellation.onCancel((reason) => {
        stopWaiting();
        this.#end(listen);
        if (reason === "shutdown") resolve({ message: resultMessage(request.id, this.#result(request)) });
        else reject(cancelledError(reason));
      });
      for (const part of listen.members) this.#start(part);
      void this.#remember(listen);
    });
  }

  /** A client has read a list. Requests do not say whose listen request is from the same client. */
  listed({ principal }: Exchange, facts: ListFacts, entries: readonly CatalogueEntry[] | undefined): void {
    for (const { exchange, changes } of this.#open) {
      if (exchange.principal.id === principal.id) changes.listedBySomebody(facts, entries);
    }
  }

  /** Handles a message of a member on the stream of a listen request. */
  received(message: Message, related: Exchange, context: TransportContext): void | Promise<void> {
    const part = this.#byExchange.get(related);
    if (part === undefined) return this.#deps.dropped("subscription.unknown", message, context);
    const { listen, member } = part;
    if (message.method === "notifications/subscriptions/acknowledged") {
      this.#acknowledged(part, memberValue(message, "params.notifications"));
      return undefined;
    }
    const changed = /^notifications\/(tools|prompts|resources)\/list_changed$/u.exec(message.method ?? "")?.[1];
    if (changed !== undefined) {
      this.#deps.expire(member.name, changed);
      listen.changes.changed(changed);
      return undefined;
    }
    const own = replaceIds(message, [{ name: `params._meta.${subscriptionKey}`, id: listen.request.id }]);
    return this.#deps.deliver(
      withAdvertisedUris(withAdvertisedTasks(own, member.name), member),
      listen.exchange,
      member.name,
    );
  }

  /** After a reload: opens streams to replaced and new members, and ends those of removed ones. */
  reconfigured(changed: ReadonlySet<string>): void {
    for (const listen of this.#open) {
      const filters = this.#split(listen.exchange, listen.wanted);
      const kept = listen.members.filter(({ member }) => !changed.has(member.name));
      for (const part of listen.members) if (!kept.includes(part)) this.#stop(part);
      const added = [...filters]
        .filter(([{ name }]) => !kept.some(({ member }) => member.name === name))
        .map(([member, filter]) => partOf(listen, member, filter));
      listen.members = [...kept, ...added];
      for (const part of added) this.#start(part);
      for (const key of listen.honoured.lists) listen.changes.changed(listKeys[key] ?? "");
    }
  }

  close(): void {
    for (const listen of this.#open) this.#end(listen);
  }

  /** The filter of each member: all lists that are asked for, and those resources and tasks that are its own. */
  #split(
    { tracking }: Exchange,
    wanted: Readonly<Record<string, unknown>>,
  ): ReadonlyMap<MemberOptions, Readonly<Record<string, unknown>>> {
    const { federation } = this.#deps;
    const lists = Object.fromEntries(
      Object.keys(listKeys).flatMap((key) => (wanted[key] === true ? [[key, true]] : [])),
    );
    // Looked up before the policy decided about each.
    const uris = stringsIn(wanted["resourceSubscriptions"]).map((uri) => tracking.subscriptions?.get(uri));
    const tasks = stringsIn(wanted["taskIds"]).flatMap((id) => taskTarget(id) ?? []);
    return new Map(
      federation.options.members.flatMap((member) => {
        const own = uris.flatMap((target) => (target?.member === member.name ? [target.name] : []));
        const ownTasks = tasks.flatMap((target) => (target.member === member.name ? [target.name] : []));
        const filter = {
          ...lists,
          ...(own.length === 0 ? {} : { resourceSubscriptions: own }),
          ...(ownTasks.length === 0 ? {} : { taskIds: ownTasks }),
        };
        return Object.keys(filter).length === 0 ? [] : [[member, filter] as const];
      }),
    );
  }

  #start(part: ListeningMember): void {
    const { listen, member, filter } = part;
    const cancellation = new Cancellation();
    const request = createOwnRequest(listen.exchange, "subscriptions/listen", [
      `"notifications":${JSON.stringify(filter)}`,
    ]);
    const exchange = createOwnExchange(listen.exchange, request, cancellation);
    part.exchange = exchange;
    this.#byExchange.set(exchange, part);
    let outcome: Promise<Reply>;
    try {
      outcome = this.#deps.linkOf(member, exchange).request(exchange);
    } catch (error) {
      outcome = Promise.reject(GatewayError.from(error));
    }
    outcome.then(
      (reply) => {
        // A server that refuses, or honours nothing of this filter and ends the stream, has nothing to report.
        this.#ended(part, reply.message?.kind === "error" ? undefined : "the subscription ended");
      },
      (error: unknown) => {
        this.#ended(part, GatewayError.from(error).message);
      },
    );
  }

  /** A member's stream has ended: it is reopened after a while, and until then its lists count as changed. */
  #ended(part: ListeningMember, reason: string | undefined): void {
    const { listen, member, exchange } = part;
    if (exchange !== undefined) this.#byExchange.delete(exchange);
    part.exchange = undefined;
    if (!this.#open.has(listen) || !listen.members.includes(part)) return;
    this.#checkAcknowledged(listen);
    if (reason === undefined || part.hasNothing) return;
    const retryMs = Math.min(firstRetryMs * 2 ** part.retries, lastRetryMs);
    part.retries++;
    this.#deps.onError(new GatewayError("upstream_unreachable", `${member.name}: ${reason}`));
    part.stopRetry = this.#deps.federation.setTimer(retryMs, () => {
      part.stopRetry = undefined;
      this.#start(part);
    });
  }

  #acknowledged(part: ListeningMember, filter: unknown): void {
    const { listen, member } = part;
    const wasRetried = part.retries > 0;
    part.retries = 0;
    const { uris, tasks, lists } = listen.honoured;
    if (!listen.isAcknowledged && isObject(filter)) {
      uris.push(...stringsIn(filter["resourceSubscriptions"]).map((uri) => advertisedUri(member, uri)));
      tasks.push(...stringsIn(filter["taskIds"]).map((id) => `${member.name}:${id}`));
    }
    // Changes while no stream was open are unknown.
    if (wasRetried) {
      for (const key of lists) {
        const capability = listKeys[key];
        if (capability === undefined) continue;
        this.#deps.expire(member.name, capability);
        listen.changes.changed(capability);
      }
    }
    part.isAcknowledged = true;
    part.hasNothing = !isObject(filter) || Object.keys(filter).length === 0;
    this.#checkAcknowledged(listen);
  }

  #checkAcknowledged(listen: Listen): void {
    const isWaiting = ({ exchange, isAcknowledged }: ListeningMember): boolean =>
      exchange !== undefined && !isAcknowledged;
    if (listen.isRemembered && !listen.members.some(isWaiting)) this.#acknowledge(listen);
  }

  /** Read before the acknowledgement: a later change by the client must not be mistaken for the initial state. */
  async #remember(listen: Listen): Promise<void> {
    await Promise.all([...listen.honoured.lists].map((key) => listen.changes.remember(listKeys[key] ?? "")));
    listen.isRemembered = true;
    this.#checkAcknowledged(listen);
  }

  /** MCP 2026-07-28, Subscriptions: the first message says which part of the filter is honoured. */
  #acknowledge(listen: Listen): void {
    if (listen.isAcknowledged || !this.#open.has(listen)) return;
    listen.isAcknowledged = true;
    const { lists, uris, tasks } = listen.honoured;
    const filter = {
      ...Object.fromEntries([...lists].map((key) => [key, true])),
      ...(uris.length === 0 ? {} : { resourceSubscriptions: uris }),
      ...(tasks.length === 0 ? {} : { taskIds: tasks }),
    };
    const members = [`"notifications":${JSON.stringify(filter)}`];
    this.#tell(listen, "notifications/subscriptions/acknowledged", members, undefined);
  }

  #tell(listen: Listen, method: string, members: readonly string[], member: string | undefined): void {
    const meta = `"_meta":{"${subscriptionKey}":${listen.request.id.json}}`;
    void this.#deps.deliver(createOwnNotification(method, [meta, ...members]), listen.exchange, member);
  }

  #end(listen: Listen): void {
    if (!this.#open.delete(listen)) return;
    listen.changes.close();
    for (const part of listen.members) this.#stop(part);
  }

  #stop({ stopRetry, exchange }: ListeningMember): void {
    stopRetry?.();
    exchange?.cancellation.cancel("client-gone");
  }

  #result({ id }: RequestMessage): string {
    const info = serverInfoOf(this.#deps.federation.options);
    const meta = `{"${subscriptionKey}":${id.json},"io.modelcontextprotocol/serverInfo":${info}}`;
    return `{"resultType":"complete","_meta":${meta}}`;
  }
}

function partOf(listen: Listen, member: MemberOptions, filter: ListeningMember["filter"]): ListeningMember {
  return {
    listen,
    member,
    filter,
    exchange: undefined,
    isAcknowledged: false,
    hasNothing: false,
    retries: 0,
    stopRetry: undefined,
  };
}

function stringsIn(value: unknown): readonly string[] {
  return Array.isArray(value) ? value.filter((one) => typeof one === "string") : [];
}
