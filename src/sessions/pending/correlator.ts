import type { NotificationMessage, RequestMessage } from "../../protocol/message.ts";
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
  spaceOf,
} from "./entry.ts";
import { PendingRequests } from "./pending-requests.ts";
import type { CorrelationOptions, CorrelatorDeps } from "./limits.ts";
import type { CorrelationStatistics } from "./statistics.ts";
import type { Revision } from "../../protocol/revisions.ts";
import { LinkList } from "./link-list.ts";
import { matchNotification } from "./notifications.ts";
import type { Tombstone } from "./tombstones.ts";

/** Tracks every request until its outcome, in both directions and in any order (SC-047). */
export interface Correlator<Payload> {
  /** Opens a scope: a session, a process's life or a connection. */
  scope(place: ScopeDescriptor): CorrelationScope<Payload>;
  /**
   * Tracks a request that is a scope of its own, as every HTTP exchange of the modern era is. Cheaper than a scope:
   * the caller holds the entry, so nothing has to be found again by its id.
   */
  single(
    place: ScopeDescriptor,
    direction: RequestDirection,
    request: RequestMessage,
    payload: Payload,
  ): OpenResult<Payload>;
  statistics(): CorrelationStatistics;
  /** Judges requests by other bounds and times from now on; those that are open keep theirs. */
  configure(settings: CorrelationOptions): void;
  /** Takes no new requests of clients; resolves when all open exchanges but streams have ended. */
  drain(): Promise<void>;
  /** Ends everything at once and stops the timer. */
  close(): void;
}

/**
 * Makes a correlator. It never changes a message and never stops one, except that while terminating it refuses
 * requests beyond its bounds.
 *
 * @example
 * const scope = correlator.scope({ kind: "session", revision: "2025-11-25", realm: "files alice" });
 * const opening = scope.open("client-to-server", request, exchange);
 * if (!opening.ok) throw opening.error;
 * // …and when the answer is there:
 * const settlement = scope.settle("server-to-client", answer);
 * if (settlement.standing === "match") settlement.entry.elapsedMs; // how long it took
 */
export function createCorrelator<Payload>(options: CorrelatorDeps<Payload>): Correlator<Payload> {
  const ledger = new PendingRequests<Payload>(options);
  let scopes = 0;
  return {
    scope: (place) => new RequestScope(ledger, ++scopes, place),
    single: (place, direction, message, payload) =>
      ledger.open({ place, scope: undefined, direction, message, payload }),
    statistics: () => ledger.counters.snapshot(ledger.size),
    configure: (settings) => {
      ledger.configure(settings);
    },
    drain: async () => ledger.drain(),
    close: () => {
      ledger.shutdown();
    },
  };
}

/** Within what ids are unique, and everything that is open there. */
export interface CorrelationScope<Payload> extends ScopeDescriptor {
  /** How many exchanges are open. */
  readonly size: number;
  /** Notes the revision that the handshake led to. */
  setRevision(revision: Revision): void;
  /** Tracks a request; to be called before it is written, so that the quickest answer finds it. */
  open(direction: RequestDirection, request: RequestMessage, payload: Payload): OpenResult<Payload>;
  /** Tracks a stream that no request opened; it has no TTL and ends with the scope or by `finish`. */
  openStream(payload: Payload): OpenResult<Payload>;
  /** Finds the request that an answer belongs to; the direction is the answer's own. */
  settle(direction: RequestDirection, answer: ResponseMessage): SettleResult<Payload>;
  /** Judges a notification; the direction is its own. */
  notify(direction: RequestDirection, notification: NotificationMessage): NotificationMatch<Payload>;
  /** Ends all that is open, and forgets it. Answers that come now are late. */
  end(): void;
}

/** The scope itself: little more than a number and two lists, so that thousands cost little. */
export class RequestScope<Payload> implements CorrelationScope<Payload>, ScopeState<Payload> {
  readonly number: number;
  readonly kind: ScopeKind;
  readonly realm: string;
  revision: Revision;
  readonly pending = new LinkList<Entry<Payload>>();
  readonly tasks = new LinkList<Entry<Payload>>();
  questions = 0;
  answeredAt = 0;
  isOver = false;
  readonly #ledger: PendingRequests<Payload>;

  constructor(ledger: PendingRequests<Payload>, number: number, { kind, realm, revision }: ScopeDescriptor) {
    this.#ledger = ledger;
    this.number = number;
    this.kind = kind;
    this.realm = realm;
    this.revision = revision;
  }

  get size(): number {
    return this.pending.size;
  }

  setRevision(revision: Revision): void {
    this.revision = revision;
  }

  open(direction: RequestDirection, message: RequestMessage, payload: Payload): OpenResult<Payload> {
    return this.#ledger.open({ place: this, scope: this, direction, message, payload });
  }

  openStream(payload: Payload): OpenResult<Payload> {
    const direction = "client-to-server";
    return this.#ledger.open({ place: this, scope: this, direction, message: undefined, payload });
  }

  settle(direction: RequestDirection, answer: ResponseMessage): SettleResult<Payload> {
    const requester = oppositeDirection(direction);
    const key = answer.id?.key;
    // An error without an id answers a request that nobody could read.
    if (key === undefined) return this.#ledger.strayAnswer(answer, undefined, undefined);
    const entry = this.request(requester, key);
    if (entry !== undefined) return this.#ledger.settle(entry, answer);
    return this.#ledger.strayAnswer(answer, this.ended(requester, key), undefined);
  }

  notify(direction: RequestDirection, notification: NotificationMessage): NotificationMatch<Payload> {
    return matchNotification(this, this.#ledger, direction, notification);
  }

  end(): void {
    this.#ledger.endScope(this);
  }

  request(side: RequestDirection, key: string): Entry<Payload> | undefined {
    return this.#ledger.ids.find(spaceOf(this, side), key);
  }

  listener(side: RequestDirection, key: string): Entry<Payload> | undefined {
    return this.#ledger.tokens.find(spaceOf(this, side), key);
  }

  ended(side: RequestDirection, key: string): Tombstone | undefined {
    return this.#ledger.tombstones.find(spaceOf(this, side), key, this.#ledger.now);
  }

  endedToken(side: RequestDirection, key: string): Tombstone | undefined {
    return this.#ledger.tokens.ended(spaceOf(this, side), key, this.#ledger.now);
  }

  endTask(side: RequestDirection, taskId: string): void {
    if (this.tasks.size > 0) this.#ledger.tokens.endTask(this, side, taskId);
  }
}
