import type { Clock } from "../../core/exchange.ts";

/** Keeps callers away from a peer that is in trouble, for a time that is known beforehand. */
export interface Breaker<Kind extends string> {
  /** Why and for how long nobody may call; undefined when calls may be made. */
  check(): OpenBreaker<Kind> | undefined;
  /** Opens for some seconds; an end that is already later stays, with its kind (PA-116). */
  trip(kind: Kind, seconds: number): OpenBreaker<Kind>;
}

/** An open breaker. */
export interface OpenBreaker<Kind extends string> {
  readonly kind: Kind;
  /** Whole seconds until it closes, at least 1. */
  readonly remainingSeconds: number;
}

/**
 * A breaker that opens on the first final failure and is simply closed again when the time is over: no half-open state
 * (PA-112). Nothing is awaited between looking and changing, so that concurrent callers see one state (PA-116).
 * A late success does not close it.
 */
export function createBreaker<Kind extends string>(clock: Pick<Clock, "now">): Breaker<Kind> {
  let open: { readonly kind: Kind; readonly until: number } | undefined;

  function check(): OpenBreaker<Kind> | undefined {
    if (open === undefined) return undefined;
    const remaining = open.until - clock.now();
    if (remaining <= 0) {
      open = undefined;
      return undefined;
    }
    return { kind: open.kind, remainingSeconds: Math.max(1, Math.ceil(remaining / 1000)) };
  }

  return {
    check,
    trip(kind, seconds) {
      const until = clock.now() + seconds * 1000;
      if (open === undefined || open.until < until) open = { kind, until };
      return { kind, remainingSeconds: Math.max(1, Math.ceil(seconds)) };
    },
  };
}
