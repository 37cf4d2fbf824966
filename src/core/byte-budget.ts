import { GatewayError } from "../errors.ts";

/** Bytes that may be held at once; read with every use, because a reload changes them. */
export interface ByteLimits {
  readonly total: number;
  readonly perPrincipal: number;
}

/**
 * Smaller messages are not counted: requests, streams and sessions are bounded by their number, and so many of this size
 * take less than the sockets that they came by. Needed by bench load: "CPU a request, gateway / pass-through".
 */
export const countedFrom = 16 * 1024;

/** A slot is free again as soon as an answer is read. */
const retryAfter = 1;

/** Memory that one body, answer, stream or message takes. It grows and shrinks, and is given back once. */
export interface HeldBytes {
  /** Notes how much it is now; an error if that is too much, and then nothing changes. Less than before always fits. */
  resize(bytes: number): GatewayError | undefined;
  release(): void;
}

/**
 * The bytes of all that callers have in the gateway, per caller and in total. The caller's bound is checked first, so that
 * a caller with too much is refused before others have to wait.
 */
export class ByteBudget {
  readonly #limits: ByteLimits;
  readonly #callers = new Map<string, number>();
  #size = 0;

  constructor(limits: ByteLimits) {
    this.#limits = limits;
  }

  /** The bytes that are counted now. */
  get size(): number {
    return this.#size;
  }

  /** Something of a caller that takes nothing yet. Callers are named by `limitKeyOf`. */
  hold(caller: string): HeldBytes {
    return new Holding(this, caller);
  }

  /** Why a message of this size is too much now; undefined if it is not. */
  problem(caller: string, bytes: number): GatewayError | undefined {
    return bytes < countedFrom ? undefined : this.growthProblem(caller, bytes, bytes);
  }

  /** Why so many bytes more are too many for something that will have this size. */
  growthProblem(caller: string, more: number, size: number): GatewayError | undefined {
    const { total, perPrincipal: allowed } = this.#limits;
    if (size > allowed) {
      const text = `the message has ${size} bytes or more; one caller may have ${allowed} bytes here at once`;
      return new GatewayError("too_large", text, { details: { limit: { actual: size, allowed } } });
    }
    const own = (this.#callers.get(caller) ?? 0) + more;
    if (own > allowed) return tooMany("rate_limited", ofOneCaller, { actual: own, allowed });
    const all = this.#size + more;
    return all > total ? tooMany("overloaded", ofAllCallers, { actual: all, allowed: total }) : undefined;
  }

  change(caller: string, more: number): void {
    this.#size += more;
    const own = (this.#callers.get(caller) ?? 0) + more;
    if (own === 0) this.#callers.delete(caller);
    else this.#callers.set(caller, own);
  }
}

const ofOneCaller =
  "this caller has too many bytes here at once: in bodies, in answers that it has not read, and in messages that wait";
const ofAllCallers = "the messages of all callers take too many bytes";

function tooMany(code: "rate_limited" | "overloaded", text: string, limit: Readonly<Record<string, number>>) {
  return new GatewayError(code, text, { details: { limit, retryAfter } });
}

class Holding implements HeldBytes {
  readonly #budget: ByteBudget;
  readonly #caller: string;
  #counted = 0;

  constructor(budget: ByteBudget, caller: string) {
    this.#budget = budget;
    this.#caller = caller;
  }

  resize(bytes: number): GatewayError | undefined {
    const counted = bytes < countedFrom ? 0 : bytes;
    const more = counted - this.#counted;
    if (more === 0) return undefined;
    const refusal = more > 0 ? this.#budget.growthProblem(this.#caller, more, counted) : undefined;
    if (refusal !== undefined) return refusal;
    this.#budget.change(this.#caller, more);
    this.#counted = counted;
    return undefined;
  }

  release(): void {
    this.resize(0);
  }
}
