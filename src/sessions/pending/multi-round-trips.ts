import type { Message } from "../../protocol/message.ts";
import type { FindingCode } from "../../protocol/diagnostics.ts";
import { digest, type InputRound, providedInputs, requestedInputs } from "./message-fields.ts";

/** An operation over all the rounds it took (MCP 2026-07-28, multi round-trip requests). */
export interface MultiRoundTrip {
  /** The number of the entry that began it. */
  readonly number: number;
  /** Monotonic milliseconds at which its first request was opened. */
  readonly startedAt: number;
  /** Retries that have joined it. */
  readonly rounds: number;
}

/** What identifies a request of a multi round-trip method: only equal ones can belong together. */
export interface RequestIdentity {
  /** A retry never joins an operation of another realm. */
  readonly realm: string;
  readonly method: string;
  readonly target: string | undefined;
}

/** The operation that a retry continues, or the error. */
export type RetryMatch =
  | { readonly ok: true; readonly operation: MultiRoundTrip }
  | { readonly ok: false; readonly finding: FindingCode };

export interface MultiRoundTripLimits {
  /** Operations that may wait for input at once; the oldest is dropped for a newer one. */
  readonly waiting: number;
  readonly waitingMs: number;
  readonly rounds: number;
}

interface Waiting {
  readonly operation: MultiRoundTrip;
  readonly fingerprint: string;
  readonly askedAt: number;
}

/** The operations that wait for the client's next round (SC-056). */
export class MultiRoundTrips {
  readonly #limits: MultiRoundTripLimits;
  /** Oldest first. */
  readonly #waiting = new Set<Waiting>();
  readonly #byFingerprint = new Map<string, Waiting[]>();

  constructor(limits: MultiRoundTripLimits) {
    this.#limits = limits;
  }

  /** How many wait. */
  get size(): number {
    return this.#waiting.size;
  }

  /** Remembers that a response asked for input, so that the retry can be matched. */
  awaitInput(operation: MultiRoundTrip, identity: RequestIdentity, response: Message, now: number): void {
    const round = requestedInputs(response);
    if (round === undefined) return;
    const waiting = { operation, fingerprint: fingerprintOf(identity, round), askedAt: now };
    this.#waiting.add(waiting);
    const alike = this.#byFingerprint.get(waiting.fingerprint);
    if (alike === undefined) this.#byFingerprint.set(waiting.fingerprint, [waiting]);
    else alike.push(waiting);
    this.#dropOldest(now);
  }

  /**
   * Finds the operation that a retry continues: exactly one must wait with this method, target, full set of keys and
   * state. It then waits no longer. Anything else stays unlinked: a guess would join strangers.
   */
  matchRetry(identity: RequestIdentity, retry: Message, now: number): RetryMatch {
    const round = providedInputs(retry);
    if (round === undefined) return { ok: false, finding: "mrtr.malformed" };
    this.#dropOldest(now);
    const [only, another] = this.#byFingerprint.get(fingerprintOf(identity, round)) ?? [];
    if (only === undefined) return { ok: false, finding: "mrtr.unmatched" };
    if (another !== undefined) return { ok: false, finding: "mrtr.ambiguous" };
    this.#remove(only);
    const { operation } = only;
    if (operation.rounds >= this.#limits.rounds) return { ok: false, finding: "mrtr.rounds" };
    return { ok: true, operation: { ...operation, rounds: operation.rounds + 1 } };
  }

  #dropOldest(now: number): void {
    const { waiting: max, waitingMs } = this.#limits;
    for (const oldest of this.#waiting) {
      if (this.#waiting.size <= max && now - oldest.askedAt <= waitingMs) return;
      this.#remove(oldest);
    }
  }

  #remove(waiting: Waiting): void {
    this.#waiting.delete(waiting);
    const others = this.#byFingerprint.get(waiting.fingerprint)?.filter((other) => other !== waiting) ?? [];
    if (others.length === 0) this.#byFingerprint.delete(waiting.fingerprint);
    else this.#byFingerprint.set(waiting.fingerprint, others);
  }
}

/** A digest, because state and keys may be as long as a message and only equality matters. */
function fingerprintOf({ realm, method, target }: RequestIdentity, { keys, state }: InputRound): string {
  return digest(JSON.stringify([realm, method, target ?? null, keys, state ?? null]));
}
