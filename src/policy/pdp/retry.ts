import type { SetTimer } from "../../core/exchange.ts";

/** How often something is tried again, and when. */
export interface RetryOptions<Result> {
  /** Further attempts after the first; 0 for none. */
  readonly retries: number;
  /** The pause between two attempts, always the same. */
  readonly pauseMs: number;
  readonly setTimer: SetTimer;
  /** Ends the pause and the attempts. */
  readonly signal?: AbortSignal | undefined;
  /** Whether a result is worth another attempt. */
  readonly isTransient: (result: Result) => boolean;
  /** Asked before each pause; without time for another attempt the last result stands. */
  readonly hasTime?: (() => boolean) | undefined;
  /** Told of every further attempt, to be counted. */
  readonly onRetry?: (() => void) | undefined;
}

/** Tries until a result is final or the attempts are used up; the last result is the result (PA-117 to PA-121). */
export async function withRetry<Result>(
  attempt: () => Promise<Result>,
  options: RetryOptions<Result>,
): Promise<Result> {
  const { retries, pauseMs, setTimer, signal, isTransient, hasTime, onRetry } = options;
  let result = await attempt();
  for (let left = retries; left > 0 && isTransient(result); left--) {
    if (hasTime?.() === false) break;
    await pause(pauseMs, setTimer, signal);
    if (signal?.aborted === true) break;
    onRetry?.();
    result = await attempt();
  }
  return result;
}

async function pause(pauseMs: number, setTimer: SetTimer, signal: AbortSignal | undefined): Promise<void> {
  const { promise, resolve } = Promise.withResolvers<void>();
  const cancel = setTimer(pauseMs, resolve);
  const onAbort = (): void => resolve();
  if (signal?.aborted === true) resolve();
  signal?.addEventListener("abort", onAbort);
  await promise;
  signal?.removeEventListener("abort", onAbort);
  cancel();
}

/** Longest wait that is believed (PA-108). */
const maxSeconds = 3600;

/**
 * The whole seconds that a `Retry-After` header asks for, at most an hour; `fallback` where it is missing, makes no
 * sense or lies in the past (PA-108; RFC 9110, section 10.2.3).
 */
export function retryAfterSeconds(
  value: string | readonly string[] | undefined,
  wallTime: number,
  fallback: number,
): number {
  const text = (typeof value === "string" ? value : value?.[0])?.trim() ?? "";
  const seconds = /^\d+$/u.test(text) ? Number(text) : (Date.parse(text) - wallTime) / 1000;
  return seconds > 0 ? Math.min(maxSeconds, Math.ceil(seconds)) : fallback;
}
