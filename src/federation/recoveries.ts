import type { SetTimer } from "../core/exchange.ts";
import type { TurnLimiter } from "../lib/turn-limiter.ts";

const firstRetryMs = 1000;
const lastRetryMs = 60_000;

/** Asks a server again, for one session; resolves with whether it answered. */
export type Retry = () => Promise<boolean>;

interface Recovery {
  /** By session. */
  readonly retries: Map<object, Retry>;
  tries: number;
  stop: (() => void) | undefined;
}

/**
 * Servers that failed when a list needed them. Each is asked again after a while, for one of the sessions that wait for
 * it, and for the others as soon as it answers: the number of sessions does not change how often it is asked.
 */
export class Recoveries {
  readonly #setTimer: SetTimer;
  readonly #turn: TurnLimiter;
  readonly #byMember = new Map<string, Recovery>();

  constructor(setTimer: SetTimer, turn: TurnLimiter) {
    this.#setTimer = setTimer;
    this.#turn = turn;
  }

  /** A session waits for a member. */
  watch(member: string, session: object, retry: Retry): void {
    const recovery = this.#byMember.get(member) ?? { retries: new Map<object, Retry>(), tries: 0, stop: undefined };
    this.#byMember.set(member, recovery);
    if (!recovery.retries.has(session)) recovery.retries.set(session, retry);
    if (recovery.stop === undefined) this.#schedule(member, recovery);
  }

  /** A session has ended. */
  leave(session: object): void {
    for (const [member, recovery] of this.#byMember) {
      if (!recovery.retries.delete(session) || recovery.retries.size > 0) continue;
      recovery.stop?.();
      this.#byMember.delete(member);
    }
  }

  #schedule(member: string, recovery: Recovery): void {
    const retryMs = Math.min(firstRetryMs * 2 ** recovery.tries, lastRetryMs);
    recovery.stop = this.#setTimer(retryMs, () => {
      void this.#retry(member, recovery);
    });
  }

  async #retry(member: string, recovery: Recovery): Promise<void> {
    const [first] = recovery.retries;
    if (first === undefined) return;
    const [session, retry] = first;
    // The next attempt uses another session, in case this one fails for its own reasons.
    recovery.retries.delete(session);
    if (!(await retry())) {
      recovery.retries.set(session, retry);
      recovery.tries++;
      this.#schedule(member, recovery);
      return;
    }
    if (this.#byMember.get(member) === recovery) this.#byMember.delete(member);
    for (const [other, again] of recovery.retries) {
      await this.#turn();
      void again().then((hasAnswered) => {
        if (!hasAnswered) this.watch(member, other, again);
      });
    }
  }
}
