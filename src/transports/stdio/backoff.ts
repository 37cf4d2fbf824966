import type { Clock } from "../../exchange.ts";

/** How long a server that keeps ending is left alone. */
export interface RestartBackoffOptions {
  /** After the first crash; it doubles with each that follows. */
  readonly firstMs: number;
  readonly longestMs: number;
  /** So many crashes are a loop: from then on callers are refused instead of kept waiting. */
  readonly loopAfter: number;
  /** Crashes further apart than this do not add up. */
  readonly forgetMs: number;
}

/** The memory of a server's crashes. */
export interface RestartBackoff {
  /** Milliseconds until a start may be tried again. */
  readonly waitMs: number;
  /** Crashes that followed each other. */
  readonly crashes: number;
  readonly isLoop: boolean;
  /** A process ended by itself. */
  crashed(): void;
  /** A start is being tried. In a loop others are to wait for its outcome. */
  trying(): void;
  /** A process works: nobody need wait, though the next crash still adds to those before. */
  working(): void;
}

/** A quarter of a second, doubled up to half a minute; five crashes are a loop, a quiet minute clears the memory. */
export const defaultRestartBackoff: RestartBackoffOptions = {
  firstMs: 250,
  longestMs: 30_000,
  loopAfter: 5,
  forgetMs: 60_000,
};

/** Makes the memory of a server that has not crashed yet. */
export function createRestartBackoff(options: RestartBackoffOptions, clock: Clock): RestartBackoff {
  const { firstMs, longestMs, loopAfter, forgetMs } = options;
  let crashes = 0;
  let lastCrash = Number.NEGATIVE_INFINITY;
  let nextTry = Number.NEGATIVE_INFINITY;

  function forgetOld(): void {
    if (clock.now() - lastCrash > forgetMs) crashes = 0;
  }

  function holdOff(): void {
    nextTry = clock.now() + Math.min(firstMs * 2 ** (crashes - 1), longestMs);
  }

  return {
    get waitMs() {
      return Math.max(0, nextTry - clock.now());
    },
    get crashes() {
      forgetOld();
      return crashes;
    },
    get isLoop() {
      forgetOld();
      return crashes >= loopAfter;
    },
    crashed() {
      forgetOld();
      crashes += 1;
      lastCrash = clock.now();
      holdOff();
    },
    trying() {
      forgetOld();
      if (crashes >= loopAfter) holdOff();
    },
    working() {
      nextTry = Number.NEGATIVE_INFINITY;
    },
  };
}
