import type { Message } from "../../protocol/message.ts";
import type { CorrelationDiagnosticCode } from "./diagnostics.ts";
import { KeyIndex, KeyNode } from "./key-index.ts";
import { Link, LinkList } from "./link-list.ts";
import { digest, type InputRound, providedInputs, requestedInputs } from "./message-fields.ts";

/** What a user asked for once, over all the rounds it took (MCP 2026-07-28, multi round-trip requests). */
export interface MultiRoundTrip {
  /** The number of the entry that began it. */
  readonly number: number;
  /** Monotonic milliseconds at which its first request was opened. */
  readonly startedAt: number;
  /** Retries that have joined it. */
  readonly rounds: number;
}

/** What a request of a multi round-trip method is about, and where: only equal ones can belong together. */
export interface RequestIdentity {
  /** Whose operations they are; a retry never joins one of another realm. */
  readonly realm: string;
  readonly method: string;
  readonly target: string | undefined;
}

/** Where a retry belongs. */
export type RetryMatch =
  | { readonly ok: true; readonly operation: MultiRoundTrip }
  | { readonly ok: false; readonly finding: CorrelationDiagnosticCode };

export interface MultiRoundTripLimits {
  /** Operations that may wait for input at once; the oldest is forgotten for a newer one. */
  readonly waiting: number;
  readonly waitingMs: number;
  readonly rounds: number;
}

/** The operations that wait for the client's next round (SC-056). */
export class MultiRoundTrips {
  readonly #limits: MultiRoundTripLimits;
  readonly #index = new KeyIndex<MultiRoundTrip>();
  /** In order of asking, hence of forgetting. */
  readonly #queue = new LinkList<WaitingRoundTrip>();

  constructor(limits: MultiRoundTripLimits) {
    this.#limits = limits;
  }

  /** How many wait. */
  get size(): number {
    return this.#queue.size;
  }

  /** Remembers that an answer asked for input, so that the retry can be told. */
  awaitInput(operation: MultiRoundTrip, asking: RequestIdentity, answer: Message, now: number): void {
    const round = requestedInputs(answer);
    if (round === undefined) return;
    this.#forget(now);
    const waiting = new WaitingRoundTrip(operation, fingerprint(asking, round), now);
    this.#index.add(waiting);
    this.#queue.append(waiting.link);
    while (this.#queue.size > this.#limits.waiting) this.#remove(this.#queue.first);
  }

  /**
   * Finds the operation that a retry continues: exactly one must wait with this method, target, full set of keys and
   * state. It then waits no longer. Everything else stays unlinked: a guess would join strangers.
   */
  matchRetry(asking: RequestIdentity, retry: Message, now: number): RetryMatch {
    const round = providedInputs(retry);
    if (round === undefined) return { ok: false, finding: "mrtr.malformed" };
    this.#forget(now);
    const [only, ...others] = this.#index.all(0, fingerprint(asking, round));
    if (!(only instanceof WaitingRoundTrip)) return { ok: false, finding: "mrtr.unmatched" };
    if (others.length > 0) return { ok: false, finding: "mrtr.ambiguous" };
    this.#remove(only.link);
    const { item: operation } = only;
    if (operation.rounds >= this.#limits.rounds) return { ok: false, finding: "mrtr.rounds" };
    return { ok: true, operation: { ...operation, rounds: operation.rounds + 1 } };
  }

  #forget(now: number): void {
    const { waitingMs } = this.#limits;
    while (this.#queue.first !== undefined && now - this.#queue.first.item.askedAt > waitingMs) {
      this.#remove(this.#queue.first);
    }
  }

  #remove(link: Link<WaitingRoundTrip> | undefined): void {
    if (link === undefined) return;
    link.leave();
    this.#index.delete(link.item);
  }
}

/** An operation that waits, in the index itself: there may be many, for as long as people think. */
class WaitingRoundTrip extends KeyNode<MultiRoundTrip> {
  readonly askedAt: number;
  readonly link: Link<WaitingRoundTrip>;

  constructor(operation: MultiRoundTrip, key: string, askedAt: number) {
    super(0, key, operation);
    this.askedAt = askedAt;
    this.link = new Link<WaitingRoundTrip>(this);
  }
}

/** Digest instead of the texts: state and keys may be as long as a message, and only equality is asked for. */
function fingerprint({ realm, method, target }: RequestIdentity, { keys, state }: InputRound): string {
  return digest(JSON.stringify([realm, method, target ?? null, keys, state ?? null]));
}
