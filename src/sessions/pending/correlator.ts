import type { NotificationMessage, RequestMessage } from "../../protocol/message.ts";
import type { Revision } from "../../protocol/revisions.ts";
import {
  type Entry,
  type NotificationMatch,
  type OpenResult,
  oppositeDirection,
  type RequestDirection,
  type ResponseMessage,
  type ScopeDescriptor,
  type ScopeKind,
  type ScopeState,
  type SettleResult,
} from "./entry.ts";
import type { CorrelationOptions, CorrelatorDeps } from "./limits.ts";
import { matchNotification } from "./notifications.ts";
import { PendingRequests } from "./pending-requests.ts";
import type { CorrelationStatistics } from "./statistics.ts";
import { type Tombstone, tombstoneSpace } from "./tombstones.ts";

/** Matches every request with its response, in both directions and in any order (SC-047). */
export interface Correlator<Payload> {
  /** Opens a scope: a session, the life of a process, or a connection. */
  scope(place: ScopeDescriptor): CorrelationScope<Payload>;
  /**
   * Tracks a request that is a scope of its own, as every HTTP exchange of the modern era is. The caller holds the
   * entry, so nothing has to be looked up by id.
   */
  single(
    place: ScopeDescriptor,
    direction: RequestDirection,
    request: RequestMessage,
    payload: Payload,
  ): OpenResult<Payload>;
  statistics(): CorrelationStatistics;
  /** Applies other limits and timeouts to new requests; open ones keep theirs. */
  configure(options: CorrelationOptions): void;
  /** Ends everything at once and stops the timer. */
  close(): void;
}

/** The requests of one scope; ids are unique within it. */
export interface CorrelationScope<Payload> extends ScopeDescriptor {
  /** How many requests are open. */
  readonly size: number;
  /** Sets the revision that the handshake agreed on. */
  setRevision(revision: Revision): void;
  /** Whether a request with this id is open. */
  isOpen(direction: RequestDirection, key: string): boolean;
  /** Tracks a request. Call it before the request is sent: its response may arrive at once. */
  open(direction: RequestDirection, request: RequestMessage, payload: Payload): OpenResult<Payload>;
  /** Ends the request that a response belongs to; the direction is the response's own. */
  settle(direction: RequestDirection, response: ResponseMessage): SettleResult<Payload>;
  /** Matches a notification; the direction is its own. */
  notify(direction: RequestDirection, notification: NotificationMessage): NotificationMatch<Payload>;
  /** Ends everything that is open. Responses that arrive afterwards are late. */
  end(): void;
}

/**
 * Creates a correlator. It never changes a message, and stops none, except that a terminating correlator refuses
 * requests beyond its limits.
 *
 * @example
 * const scope = correlator.scope({ kind: "session", revision: "2025-11-25", realm: "files alice" });
 * const opened = scope.open("client-to-server", request, exchange);
 * if (!opened.ok) throw opened.error;
 * // …and when the response arrives:
 * const settled = scope.settle("server-to-client", response);
 * if (settled.outcome === "match") settled.entry.payload; // the exchange that waited
 */
export function createCorrelator<Payload>(deps: CorrelatorDeps<Payload>): Correlator<Payload> {
  const requests = new PendingRequests<Payload>(deps);
  let scopes = 0;
  return {
    scope: (place) => new RequestScope(requests, ++scopes, place),
    single: (place, direction, message, payload) =>
      requests.open({ place, scope: undefined, direction, message, payload }),
    statistics: () => requests.counters.snapshot(requests.size),
    configure: (options) => {
      requests.configure(options);
    },
    close: () => {
      requests.shutdown();
    },
  };
}

/** The scope itself. Its lists are scanned, not indexed: a session has a handful of open requests. */
export class RequestScope<Payload> implements CorrelationScope<Payload>, ScopeState<Payload> {
  readonly number: number;
  readonly kind: ScopeKind;
  readonly realm: string;
  readonly owner: string;
  revision: Revision;
  readonly pending: Entry<Payload>[] = [];
  readonly tasks: Entry<Payload>[] = [];
  openServerRequests = 0;
  serverRequestEndedAt = 0;
  isOver = false;
  readonly #highest: Record<RequestDirection, string> = { "client-to-server": "", "server-to-client": "" };
  readonly #requests: PendingRequests<Payload>;

  constructor(
    requests: PendingRequests<Payload>,
    number: number,
    { kind, realm, revision, owner = realm }: ScopeDescriptor,
  ) {
    this.#requests = requests;
    this.number = number;
    this.kind = kind;
    this.realm = realm;
    this.owner = owner;
    this.revision = revision;
  }

  get size(): number {
    return this.pending.length;
  }

  setRevision(revision: Revision): void {
    this.revision = revision;
  }

  isOpen(direction: RequestDirection, key: string): boolean {
    return this.request(direction, key) !== undefined;
  }

  open(direction: RequestDirection, message: RequestMessage, payload: Payload): OpenResult<Payload> {
    return this.#requests.open({ place: this, scope: this, direction, message, payload });
  }

  settle(direction: RequestDirection, response: ResponseMessage): SettleResult<Payload> {
    const requester = oppositeDirection(direction);
    const key = response.id?.key;
    // An error without an id answers a request that the peer could not read.
    if (key === undefined) return this.#requests.strayResponse(response, undefined, undefined);
    const entry = this.request(requester, key);
    if (entry !== undefined) return this.#requests.settle(entry, response);
    return this.#requests.strayResponse(response, this.ended(requester, key), undefined);
  }

  notify(direction: RequestDirection, notification: NotificationMessage): NotificationMatch<Payload> {
    return matchNotification(this, this.#requests, direction, notification);
  }

  end(): void {
    this.#requests.endScope(this);
  }

  request(direction: RequestDirection, key: string): Entry<Payload> | undefined {
    for (const entry of this.pending) if (entry.hasId(direction, key)) return entry;
    return undefined;
  }

  /** Most peers count, so this answers without a look at all ended requests. Any order of all texts would do. */
  isNewId(direction: RequestDirection, key: string): boolean {
    const highest = this.#highest[direction];
    const isNew = key.length === highest.length ? key > highest : key.length > highest.length;
    if (isNew) this.#highest[direction] = key;
    return isNew;
  }

  /** Of two requests with the same token, the newer one. */
  progressListener(direction: RequestDirection, key: string): Entry<Payload> | undefined {
    return findToken(this.pending, direction, key) ?? findToken(this.tasks, direction, key);
  }

  ended(direction: RequestDirection, key: string): Tombstone | undefined {
    const { tombstones, now } = this.#requests;
    return tombstones.find(tombstoneSpace(this, direction, "id"), key, now);
  }

  endedToken(direction: RequestDirection, key: string): Tombstone | undefined {
    const { tombstones, now } = this.#requests;
    return tombstones.find(tombstoneSpace(this, direction, "token"), key, now);
  }

  endTask(direction: RequestDirection, taskId: string): void {
    this.#requests.endTask(this, direction, taskId);
  }
}

function findToken<Payload>(
  entries: readonly Entry<Payload>[],
  direction: RequestDirection,
  key: string,
): Entry<Payload> | undefined {
  let newest: Entry<Payload> | undefined;
  for (const entry of entries) if (entry.hasToken(direction, key)) newest = entry;
  return newest;
}
