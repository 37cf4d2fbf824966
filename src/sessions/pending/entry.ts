import type { GatewayError } from "../../errors.ts";
import type {
  Diagnostic,
  ErrorMessage,
  NotificationMessage,
  RequestId,
  RequestMessage,
  ResultMessage,
} from "../../protocol/message.ts";
import type { Revision } from "../../protocol/revisions.ts";
import type { KeyNode } from "./key-index.ts";
import { Link, type LinkList } from "./link-list.ts";
import type { MethodRules } from "./method-rules.ts";
import type { MultiRoundTrip } from "./multi-round-trips.ts";
import { shortMethod } from "./message-fields.ts";
import { type CorrelationState, type FinalState, isFinal, type ResponseMatch } from "./states.ts";
import type { Tombstone } from "./tombstones.ts";

/** The two ways in which requests travel. */
export type RequestDirection = "client-to-server" | "server-to-client";

/**
 * What keys are unique within (SC-048): a stdio process's life, a legacy session, one HTTP exchange, or an HTTP+SSE
 * connection.
 */
export type ScopeKind = "process" | "session" | "exchange" | "connection";

/** What answers a request. */
export type ResponseMessage = ResultMessage | ErrorMessage;

/** Where exchanges take place. */
export interface ScopeDescriptor {
  readonly kind: ScopeKind;
  readonly revision: Revision;
  /** Whose retries may continue whose operations, such as route and principal; never two principals in one. */
  readonly realm: string;
}

/** A tracked request, or a stream that no request opened. */
export interface CorrelationEntry<Payload> {
  /** Unique in this correlator; tombstones and operations name entries by it. */
  readonly number: number;
  readonly place: ScopeDescriptor;
  /** The way the request went. */
  readonly direction: RequestDirection;
  readonly id: RequestId | undefined;
  readonly method: string;
  /** The method if some revision knows it, else `other`: fit for a metric label. */
  readonly label: string;
  /** What the request is about, kept where a retry or a task may have to be matched; very long names as a digest. */
  readonly target: string | undefined;
  readonly state: CorrelationState;
  /** Monotonic milliseconds. */
  readonly openedAt: number;
  /** From request to end; undefined while it is open. */
  readonly elapsedMs: number | undefined;
  /** What it belongs to, where that took more than one round. */
  readonly operation: MultiRoundTrip | undefined;
  /** What it was opened with; undefined once only its task lives on. */
  readonly payload: Payload | undefined;
  /** Takes the answer. */
  settle(answer: ResponseMessage): SettleResult<Payload>;
  /** Judges a notification that came on this exchange's own stream, which shows that it is alive. */
  notify(direction: RequestDirection, notification: NotificationMessage): NotificationMatch<Payload>;
  /** Something came on its stream: restarts the inactivity TTL, never the hard limit. */
  touch(): void;
  /** Ends it for another reason than an answer; false when it had ended before. */
  finish(state: FinalState): boolean;
  /** Ends it because its place has: cancelled where closing cancels, else abandoned. */
  close(): boolean;
}

/** Whether a request is tracked now, or why not. */
export type OpenResult<Payload> =
  | { readonly ok: true; readonly entry: CorrelationEntry<Payload> }
  | { readonly ok: false; readonly error: GatewayError };

/** What an answer turned out to be. */
export type SettleResult<Payload> =
  | { readonly standing: "match"; readonly entry: CorrelationEntry<Payload> }
  | { readonly standing: Exclude<ResponseMatch, "match" | "orphan">; readonly of: Tombstone }
  | { readonly standing: "orphan" };

/** What a notification turned out to be. Whatever it is, it is forwarded. */
export type NotificationMatch<Payload> =
  | { readonly type: "cancelled" | "subscription"; readonly entry: CorrelationEntry<Payload> }
  | { readonly type: "progress"; readonly entry: CorrelationEntry<Payload>; readonly value: number }
  | { readonly type: "stray"; readonly diagnostic: Diagnostic }
  | { readonly type: "unrelated" };

/** Who moves entries. */
export interface EntryOwner<Payload> {
  settle(entry: Entry<Payload>, answer: ResponseMessage): SettleResult<Payload>;
  notify(
    entry: Entry<Payload>,
    direction: RequestDirection,
    notification: NotificationMessage,
  ): NotificationMatch<Payload>;
  touch(entry: Entry<Payload>): void;
  end(entry: Entry<Payload>, state: FinalState): boolean;
  close(entry: Entry<Payload>): boolean;
}

/** Where the exchanges that a notification may speak of are found. */
export interface RequestLookup<Payload> {
  readonly revision: Revision;
  /** The open request of that side under that id. */
  request(side: RequestDirection, key: string): Entry<Payload> | undefined;
  /** The request of that side that listens to that token: an open one, or one whose task lives on. */
  listener(side: RequestDirection, key: string): Entry<Payload> | undefined;
  ended(side: RequestDirection, key: string): Tombstone | undefined;
  endedToken(side: RequestDirection, key: string): Tombstone | undefined;
  /** The task that a request of that side made has ended. */
  endTask(side: RequestDirection, taskId: string): void;
}

/** What a scope keeps about its entries. */
export interface ScopeState<Payload> extends RequestLookup<Payload> {
  /** Distinguishes its keys from those of all other scopes. */
  readonly number: number;
  /** In order of opening. */
  readonly pending: LinkList<Entry<Payload>>;
  /** Ended entries whose task, and with it their progress token, lives on. */
  readonly tasks: LinkList<Entry<Payload>>;
  /** Requests of the server that the client has not answered yet. */
  questions: number;
  /** When the last of them ended. */
  answeredAt: number;
  isOver: boolean;
}

/** What an entry is made of. */
export interface EntryInit<Payload> {
  readonly place: ScopeDescriptor;
  /** Undefined for an exchange that is a scope of its own. */
  readonly scope: ScopeState<Payload> | undefined;
  readonly direction: RequestDirection;
  /** Undefined for a stream that no request opened. */
  readonly message: RequestMessage | undefined;
  readonly payload: Payload;
}

/** The entry itself, with what the ledger notes on it. */
export class Entry<Payload> implements CorrelationEntry<Payload> {
  readonly number: number;
  readonly place: ScopeDescriptor;
  readonly scope: ScopeState<Payload> | undefined;
  readonly direction: RequestDirection;
  readonly id: RequestId | undefined;
  readonly method: string;
  readonly plan: MethodRules;
  readonly openedAt: number;
  payload: Payload | undefined;
  state: CorrelationState;
  /** When something last came on its stream; not a number before, which would be one more to keep for each. */
  activeAt: number | undefined = undefined;
  endedAt = 0;
  /** The last progress value. */
  progress: number | undefined = undefined;
  token: RequestId | undefined = undefined;
  target: string | undefined = undefined;
  operation: MultiRoundTrip | undefined = undefined;
  /** The request wants a task, so its answer may only be the beginning (MCP 2025-11-25, Tasks). */
  wantsTask = false;
  createdTask: string | undefined = undefined;
  idNode: KeyNode<Entry<Payload>> | undefined = undefined;
  tokenNode: KeyNode<Entry<Payload>> | undefined = undefined;
  readonly ageLink: Link<Entry<Payload>>;
  readonly scopeLink: Link<Entry<Payload>> | undefined;
  readonly deadlineLink: Link<Entry<Payload>> | undefined;
  readonly #keeper: EntryOwner<Payload>;

  constructor(
    keeper: EntryOwner<Payload>,
    { place, scope, direction, message, payload }: EntryInit<Payload>,
    plan: MethodRules,
    number: number,
    now: number,
  ) {
    this.#keeper = keeper;
    this.number = number;
    this.place = place;
    this.scope = scope;
    this.direction = direction;
    this.id = message?.id;
    this.method = message === undefined ? "" : shortMethod(message.method);
    this.plan = plan;
    this.openedAt = now;
    this.payload = payload;
    this.state = message === undefined ? "streaming" : "pending";
    this.ageLink = new Link<Entry<Payload>>(this);
    this.scopeLink = scope === undefined ? undefined : new Link<Entry<Payload>>(this);
    this.deadlineLink = plan.isStream ? undefined : new Link<Entry<Payload>>(this);
  }

  get label(): string {
    return this.plan.label;
  }

  get isOpen(): boolean {
    return !isFinal(this.state);
  }

  get elapsedMs(): number | undefined {
    return this.isOpen ? undefined : this.endedAt - this.openedAt;
  }

  settle(answer: ResponseMessage): SettleResult<Payload> {
    return this.#keeper.settle(this, answer);
  }

  notify(direction: RequestDirection, notification: NotificationMessage): NotificationMatch<Payload> {
    return this.#keeper.notify(this, direction, notification);
  }

  touch(): void {
    this.#keeper.touch(this);
  }

  finish(state: FinalState): boolean {
    return this.#keeper.end(this, state);
  }

  close(): boolean {
    return this.#keeper.close(this);
  }
}

/** The opposite way. */
export function oppositeDirection(side: RequestDirection): RequestDirection {
  return side === "client-to-server" ? "server-to-client" : "client-to-server";
}

/** One direction of one scope, as a number: what the keys of its requests are unique within. */
export function spaceOf(scope: ScopeState<unknown>, side: RequestDirection): number {
  return scope.number * 2 + (side === "client-to-server" ? 0 : 1);
}

/** The books of an exchange that is a scope of its own: there is one request to speak of, open or ended. */
export class SingleRequestLookup<Payload> implements RequestLookup<Payload> {
  readonly #entry: Entry<Payload>;

  constructor(entry: Entry<Payload>) {
    this.#entry = entry;
  }

  get revision(): Revision {
    return this.#entry.place.revision;
  }

  request(side: RequestDirection, key: string): Entry<Payload> | undefined {
    return this.#entry.isOpen && this.#hasId(side, key) ? this.#entry : undefined;
  }

  listener(side: RequestDirection, key: string): Entry<Payload> | undefined {
    return this.#entry.isOpen && this.#hasToken(side, key) ? this.#entry : undefined;
  }

  ended(side: RequestDirection, key: string): Tombstone | undefined {
    return !this.#entry.isOpen && this.#hasId(side, key) ? this.#entry : undefined;
  }

  endedToken(side: RequestDirection, key: string): Tombstone | undefined {
    return !this.#entry.isOpen && this.#hasToken(side, key) ? this.#entry : undefined;
  }

  endTask(): void {
    // A task outlives the exchange that made it, and without a scope nothing is kept of it.
  }

  #hasId(side: RequestDirection, key: string): boolean {
    return this.#entry.direction === side && this.#entry.id?.key === key;
  }

  #hasToken(side: RequestDirection, key: string): boolean {
    return this.#entry.direction === side && this.#entry.token?.key === key;
  }
}
