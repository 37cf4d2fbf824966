import type { Diagnostic } from "../../protocol/diagnostics.ts";
import type { GatewayError } from "../../errors.ts";
import type {
  ErrorMessage,
  NotificationMessage,
  RequestId,
  RequestMessage,
  ResultMessage,
} from "../../protocol/message.ts";
import type { Revision } from "../../protocol/revisions.ts";
import type { MethodRules } from "./method-rules.ts";
import type { MultiRoundTrip } from "./multi-round-trips.ts";
import { shortMethod } from "./message-fields.ts";
import { type CorrelationState, type FinalState, isFinal, type ResponseMatch } from "./states.ts";
import type { Tombstone } from "./tombstones.ts";

/** Which side sent the request. */
export type RequestDirection = "client-to-server" | "server-to-client";

/**
 * What request ids are unique within (SC-048): the life of a stdio process, a legacy session, one HTTP exchange, or an
 * HTTP+SSE connection.
 */
export type ScopeKind = "process" | "session" | "exchange" | "connection";

/** A JSON-RPC response: a result or an error. */
export type ResponseMessage = ResultMessage | ErrorMessage;

/** What a scope is opened with. */
export interface ScopeDescriptor {
  readonly kind: ScopeKind;
  readonly revision: Revision;
  /** Retries only continue operations of the same realm, such as route and principal; never shared by two principals. */
  readonly realm: string;
  /** Whose limit its requests count against; the realm if not given. */
  readonly owner?: string;
}

/** A tracked request. */
export interface CorrelationEntry<Payload> {
  /** Unique in this correlator; tombstones and operations refer to entries by it. */
  readonly number: number;
  readonly place: ScopeDescriptor;
  readonly direction: RequestDirection;
  readonly id: RequestId;
  readonly method: string;
  /** The method if some revision defines it, else `other`: safe as a metric label. */
  readonly label: string;
  /** The tool, prompt, resource or task, kept where a retry or a task may have to be matched; long names as a digest. */
  readonly target: string | undefined;
  readonly state: CorrelationState;
  /** Monotonic milliseconds. */
  readonly openedAt: number;
  /** Set if the request continues an operation of an earlier request. */
  readonly operation: MultiRoundTrip | undefined;
  /** What it was opened with; undefined once only its task lives on. */
  readonly payload: Payload | undefined;
  /** Ends it with its response. */
  settle(response: ResponseMessage): SettleResult<Payload>;
  /** Matches a notification that arrived on this exchange's own stream. */
  notify(direction: RequestDirection, notification: NotificationMessage): NotificationMatch<Payload>;
  /** Reports activity: restarts the inactivity timeout, never the hard limit. */
  touch(): void;
  /** Ends it without a response; false if it had already ended. */
  finish(state: FinalState): boolean;
  /** Ends it because its scope has: cancelled if the revision says that closing cancels, else abandoned. */
  close(): boolean;
}

/** The entry of a request that is now tracked, or why it is refused. */
export type OpenResult<Payload> =
  | { readonly ok: true; readonly entry: CorrelationEntry<Payload> }
  | { readonly ok: false; readonly error: GatewayError };

/** Which request a response belongs to, if any. */
export type SettleResult<Payload> =
  | { readonly outcome: "match"; readonly entry: CorrelationEntry<Payload> }
  | { readonly outcome: Exclude<ResponseMatch, "match" | "orphan">; readonly of: Tombstone }
  | { readonly outcome: "orphan" };

/** Which request a notification belongs to, if any. It is forwarded in any case. */
export type NotificationMatch<Payload> =
  | { readonly type: "cancelled" | "subscription"; readonly entry: CorrelationEntry<Payload> }
  | { readonly type: "progress"; readonly entry: CorrelationEntry<Payload>; readonly value: number }
  | { readonly type: "stray"; readonly diagnostic: Diagnostic }
  | { readonly type: "unrelated" };

/** What an entry's methods are carried out by. */
export interface EntryOwner<Payload> {
  settle(entry: Entry<Payload>, response: ResponseMessage): SettleResult<Payload>;
  notify(
    entry: Entry<Payload>,
    direction: RequestDirection,
    notification: NotificationMessage,
  ): NotificationMatch<Payload>;
  touch(entry: Entry<Payload>): void;
  end(entry: Entry<Payload>, state: FinalState): boolean;
  close(entry: Entry<Payload>): boolean;
}

/** Finds the requests that a notification may refer to. */
export interface RequestLookup<Payload> {
  readonly revision: Revision;
  /** The open request of that direction with that id. */
  request(direction: RequestDirection, key: string): Entry<Payload> | undefined;
  /** The request of that direction with that progress token: an open one, or one whose task is still running. */
  progressListener(direction: RequestDirection, key: string): Entry<Payload> | undefined;
  ended(direction: RequestDirection, key: string): Tombstone | undefined;
  endedToken(direction: RequestDirection, key: string): Tombstone | undefined;
  /** The task that a request of that direction created has ended. */
  endTask(direction: RequestDirection, taskId: string): void;
}

/** What a scope keeps about its entries. */
export interface ScopeState<Payload> extends RequestLookup<Payload> {
  /** Distinguishes its keys from those of all other scopes. */
  readonly number: number;
  /** Open entries, oldest first. */
  readonly pending: Entry<Payload>[];
  /** Ended entries whose task, and with it their progress token, is still live; oldest first. */
  readonly tasks: Entry<Payload>[];
  /** Requests of the server that the client has not answered yet. */
  openServerRequests: number;
  /** When the last of them ended. */
  serverRequestEndedAt: number;
  isOver: boolean;
  /** Notes the id of a new request; true if it is above all earlier ones of its direction, so that none had it. */
  isNewId(direction: RequestDirection, key: string): boolean;
}

/** What an entry is created from. */
export interface EntryInit<Payload> {
  readonly place: ScopeDescriptor;
  /** Undefined for an exchange that is a scope of its own. */
  readonly scope: ScopeState<Payload> | undefined;
  readonly direction: RequestDirection;
  readonly message: RequestMessage;
  readonly payload: Payload;
}

/** The entry with its bookkeeping. A class with few fields: bench row "a pending entry" bounds its size. */
export class Entry<Payload> implements CorrelationEntry<Payload> {
  readonly number: number;
  readonly place: ScopeDescriptor;
  readonly scope: ScopeState<Payload> | undefined;
  readonly direction: RequestDirection;
  readonly id: RequestId;
  readonly method: string;
  readonly rules: MethodRules;
  readonly openedAt: number;
  payload: Payload | undefined;
  state: CorrelationState = "pending";
  /** When something last arrived on its stream. */
  activeAt: number | undefined = undefined;
  endedAt = 0;
  /** The last progress value. */
  progress: number | undefined = undefined;
  token: RequestId | undefined = undefined;
  target: string | undefined = undefined;
  operation: MultiRoundTrip | undefined = undefined;
  /** The request asks for a task, so its response may only be the beginning (MCP 2025-11-25, Tasks). */
  wantsTask = false;
  createdTask: string | undefined = undefined;
  /** Its index among all open entries. */
  listIndex = -1;
  readonly #owner: EntryOwner<Payload>;

  constructor(
    owner: EntryOwner<Payload>,
    { place, scope, direction, message, payload }: EntryInit<Payload>,
    rules: MethodRules,
    number: number,
    now: number,
  ) {
    this.#owner = owner;
    this.number = number;
    this.place = place;
    this.scope = scope;
    this.direction = direction;
    this.id = message.id;
    this.method = shortMethod(message.method);
    this.rules = rules;
    this.openedAt = now;
    this.payload = payload;
  }

  get label(): string {
    return this.rules.label;
  }

  get isOpen(): boolean {
    return !isFinal(this.state);
  }

  hasId(direction: RequestDirection, key: string): boolean {
    return this.direction === direction && this.id?.key === key;
  }

  hasToken(direction: RequestDirection, key: string): boolean {
    return this.direction === direction && this.token?.key === key;
  }

  settle(response: ResponseMessage): SettleResult<Payload> {
    return this.#owner.settle(this, response);
  }

  notify(direction: RequestDirection, notification: NotificationMessage): NotificationMatch<Payload> {
    return this.#owner.notify(this, direction, notification);
  }

  touch(): void {
    this.#owner.touch(this);
  }

  finish(state: FinalState): boolean {
    return this.#owner.end(this, state);
  }

  close(): boolean {
    return this.#owner.close(this);
  }
}

export function oppositeDirection(direction: RequestDirection): RequestDirection {
  return direction === "client-to-server" ? "server-to-client" : "client-to-server";
}

/** The lookup of an exchange that is a scope of its own: it knows one request, open or ended. */
export class SingleRequestLookup<Payload> implements RequestLookup<Payload> {
  readonly #entry: Entry<Payload>;

  constructor(entry: Entry<Payload>) {
    this.#entry = entry;
  }

  get revision(): Revision {
    return this.#entry.place.revision;
  }

  request(direction: RequestDirection, key: string): Entry<Payload> | undefined {
    return this.#entry.isOpen && this.#entry.hasId(direction, key) ? this.#entry : undefined;
  }

  progressListener(direction: RequestDirection, key: string): Entry<Payload> | undefined {
    return this.#entry.isOpen && this.#entry.hasToken(direction, key) ? this.#entry : undefined;
  }

  ended(direction: RequestDirection, key: string): Tombstone | undefined {
    return !this.#entry.isOpen && this.#entry.hasId(direction, key) ? this.#entry : undefined;
  }

  endedToken(direction: RequestDirection, key: string): Tombstone | undefined {
    return !this.#entry.isOpen && this.#entry.hasToken(direction, key) ? this.#entry : undefined;
  }

  endTask(): void {
    // A task outlives the exchange that created it, and without a scope nothing is kept of it.
  }
}
