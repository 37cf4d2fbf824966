import type { Clock } from "../../core/exchange.ts";

/** Why a breaker is open: the decision point asked for a pause (429), or it failed. */
export type BreakerKind = "rate" | "failure";

/** An open breaker. */
export interface OpenBreaker {
  readonly kind: BreakerKind;
  /** Whole seconds until it closes, at least 1. */
  readonly remainingSeconds: number;
}

/** A circuit breaker for one decision point. */
export interface Breaker {
  /** The open breaker; undefined when calls are allowed. */
  check(): OpenBreaker | undefined;
  /** Opens for some seconds. If it is already open for longer, that end and its kind stay (PA-116). */
  trip(kind: BreakerKind, seconds: number): OpenBreaker;
}

/**
 * Creates a breaker that opens on the first final failure and closes when its time is over, without a half-open state
 * (PA-112). It is synchronous, so concurrent callers see one state (PA-116). A late success does not close it.
 */
export function createBreaker(clock: Pick<Clock, "now">): Breaker {
  let open: { readonly kind: BreakerKind; readonly until: number } | undefined;

  return {
    check: () => {
      if (open === undefined) return undefined;
      const remaining = open.until - clock.now();
      if (remaining > 0) return { kind: open.kind, remainingSeconds: Math.max(1, Math.ceil(remaining / 1000)) };
      open = undefined;
      return undefined;
    },
    trip: (kind, seconds) => {
      const until = clock.now() + seconds * 1000;
      if (open === undefined || open.until < until) open = { kind, until };
      return { kind, remainingSeconds: Math.max(1, Math.ceil(seconds)) };
    },
  };
}
