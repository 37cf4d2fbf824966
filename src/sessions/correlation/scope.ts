import type { NotificationMessage, RequestMessage } from "../../protocol/message.ts";
import type { Revision } from "../../protocol/revisions.ts";
import { oppositeDirection, spaceOf } from "./entry.ts";
import type {
  ResponseMessage,
  Entry,
  NotificationMatch,
  OpenResult,
  ScopeDescriptor,
  ScopeState,
  ScopeKind,
  SettleResult,
  RequestDirection,
} from "./entry.ts";
import type { PendingRequests } from "./ledger.ts";
import { LinkList } from "./link-list.ts";
import { matchNotification } from "./notifications.ts";
import type { Tombstone } from "./tombstones.ts";

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
