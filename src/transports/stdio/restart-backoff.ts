import type { Clock } from "../../lib/clock.ts";

/** Delays between restarts of a server that keeps crashing. */
export interface RestartBackoffOptions {
  /** After the first crash; doubles with each further one. */
  readonly firstMs: number;
  readonly maxMs: number;
  /** After this many crashes callers are refused instead of kept waiting. */
  readonly loopAfter: number;
  /** Crashes further apart than this are not counted together. */
  readonly forgetMs: number;
}

/** Counts the crashes of a server. */
export interface RestartBackoff {
  /** Milliseconds until a start may be tried again. */
  readonly waitMs: number;
  /** Crashes in a row. */
  readonly crashes: number;
  readonly isLoop: boolean;
  /** A process crashed. */
  crashed(): void;
  /** A start is being tried. After too many crashes other starts wait for its outcome. */
  trying(): void;
  /** A process works: no delay, though the next crash still counts as one in a row. */
  working(): void;
}

export const defaultRestartBackoff: RestartBackoffOptions = {
  firstMs: 250,
  maxMs: 30_000,
  loopAfter: 5,
  forgetMs: 60_000,
};

export function createRestartBackoff(options: RestartBackoffOptions, clock: Clock): RestartBackoff {
  const { firstMs, maxMs, loopAfter, forgetMs } = options;
  let crashes = 0;
  let lastCrash = Number.NEGATIVE_INFINITY;
  let nextTry = Number.NEGATIVE_INFINITY;

  function forgetOld(): void {
    if (clock.now() - lastCrash > forgetMs) crashes = 0;
  }

  function postpone(): void {
    nextTry = clock.now() + Math.min(firstMs * 2 ** (crashes - 1), maxMs);
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
      postpone();
    },
    trying() {
      forgetOld();
      if (crashes >= loopAfter) postpone();
    },
    working() {
      nextTry = Number.NEGATIVE_INFINITY;
    },
  };
}
