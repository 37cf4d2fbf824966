import * as z from "zod";

import type { Clock, SetTimer } from "../../core/exchange.ts";
import { abortError, type PdpClient, type PdpReply, type PdpRequest } from "./client.ts";

/** How a call ended: a reply of any status or a network error, and the breaker if that opened it. */
export type PdpOutcome = (
  | { readonly reply: PdpReply; readonly error?: undefined }
  | { readonly reply?: undefined; readonly error: string }
) & { readonly tripped: OpenBreaker | undefined };

/** One call, with its retries. */
export interface PdpCall extends PdpRequest {
  readonly retries: number;
  /** Maximum total milliseconds, including retries and pauses; unlimited if omitted. */
  readonly budgetMs?: number | undefined;
}

export interface PdpCallerDeps {
  readonly client: PdpClient;
  readonly clock: Clock;
  readonly setTimer: SetTimer;
  /** Undefined if the breaker is off. */
  readonly breaker: Breaker | undefined;
  /** How long the breaker stays open if the decision point does not say. */
  readonly breakerSeconds: number;
  readonly retryBackoffMs: number;
  readonly onRetry?: (() => void) | undefined;
}

/** Calls a decision point over HTTP with retries and a circuit breaker. */
export interface PdpCaller {
  /** Must be checked before `call`. */
  checkBreaker(): OpenBreaker | undefined;
  /** Rejects only if the signal was aborted for another reason than a timeout. */
  call(call: PdpCall): Promise<PdpOutcome>;
}

export function createPdpCaller(deps: PdpCallerDeps): PdpCaller {
  const { client, clock, setTimer, breaker, breakerSeconds, retryBackoffMs, onRetry } = deps;

  /** Only the final attempt opens the breaker (PA-121). */
  function trip(reply: PdpReply | undefined): OpenBreaker | undefined {
    if (reply === undefined || reply.status >= 500) return breaker?.trip("failure", breakerSeconds);
    if (reply.status !== 429) return undefined;
    return breaker?.trip("rate", retryAfterSeconds(reply.headers["retry-after"], clock.wall(), breakerSeconds));
  }

  return {
    checkBreaker: () => breaker?.check(),
    call: async ({ retries, budgetMs = Number.POSITIVE_INFINITY, ...request }) => {
      const { signal } = request;
      const deadline = clock.now() + budgetMs;
      const attempt = await withRetry(
        async () => {
          const timeoutMs = Math.min(request.timeoutMs, deadline - clock.now());
          if (timeoutMs <= 0) return { error: "no time left for an attempt" };
          try {
            return { reply: await client.post({ ...request, timeoutMs }) };
          } catch (error) {
            return { error: errorText(error) };
          }
        },
        {
          retries,
          backoffMs: retryBackoffMs,
          setTimer,
          signal,
          isTransient: ({ reply }) => reply === undefined || reply.status >= 500,
          hasTime: () => clock.now() + retryBackoffMs < deadline,
          onRetry,
        },
      );
      // A caller that went away says nothing about the decision point; a timeout does.
      if (signal?.aborted === true && !isTimeout(signal.reason)) throw abortError(signal);
      return { ...attempt, tripped: trip(attempt.reply) };
    },
  };
}

function isTimeout(reason: unknown): boolean {
  return reason === "timeout" || (reason instanceof Error && reason.name === "TimeoutError");
}

/** Node reports several addresses that all failed as one error without a message. */
function errorText(error: unknown): string {
  if (!(error instanceof Error)) return String(error);
  return error.message === "" && "code" in error ? String(error.code) : error.message;
}

interface RetryOptions<Result> {
  /** Attempts after the first; 0 for none. */
  readonly retries: number;
  /** The pause before each retry; it does not grow. */
  readonly backoffMs: number;
  readonly setTimer: SetTimer;
  /** Ends the pause and the retries. */
  readonly signal?: AbortSignal | undefined;
  /** Whether a result is worth a retry. */
  readonly isTransient: (result: Result) => boolean;
  /** Called before each pause; false ends the retries. */
  readonly hasTime?: (() => boolean) | undefined;
  /** Called before each retry. */
  readonly onRetry?: (() => void) | undefined;
}

/** Retries until a result is final or no retries are left, and returns the last result (PA-117 to PA-121). */
export async function withRetry<Result>(
  attempt: () => Promise<Result>,
  options: RetryOptions<Result>,
): Promise<Result> {
  const { retries, backoffMs, setTimer, signal, isTransient, hasTime, onRetry } = options;
  let result = await attempt();
  for (let left = retries; left > 0 && isTransient(result); left--) {
    if (hasTime?.() === false) break;
    await pause(backoffMs, setTimer, signal);
    if (signal?.aborted === true) break;
    onRetry?.();
    result = await attempt();
  }
  return result;
}

async function pause(ms: number, setTimer: SetTimer, signal: AbortSignal | undefined): Promise<void> {
  const { promise, resolve } = Promise.withResolvers<void>();
  const cancel = setTimer(ms, resolve);
  const onAbort = (): void => resolve();
  if (signal?.aborted === true) resolve();
  signal?.addEventListener("abort", onAbort);
  await promise;
  signal?.removeEventListener("abort", onAbort);
  cancel();
}

/** Upper limit for `Retry-After` (PA-108). */
const maxRetryAfterSeconds = 3600;

/**
 * The whole seconds of a `Retry-After` header, at most an hour; `fallback` if it is missing, invalid or in the past
 * (PA-108; RFC 9110, section 10.2.3).
 */
export function retryAfterSeconds(
  value: string | readonly string[] | undefined,
  wallTime: number,
  fallback: number,
): number {
  const text = (typeof value === "string" ? value : value?.[0])?.trim() ?? "";
  const seconds = /^\d+$/u.test(text) ? Number(text) : (Date.parse(text) - wallTime) / 1000;
  return seconds > 0 ? Math.min(maxRetryAfterSeconds, Math.ceil(seconds)) : fallback;
}

const file = z.string().min(1).optional();

/** The `tls` section of a decision point. */
export const pdpTlsConfig = z
  .strictObject({
    caFile: file.describe("PEM file with trusted certificate authorities, instead of the system's."),
    certFile: file.describe("PEM file with the client certificate."),
    keyFile: file.describe("PEM file with the key of the client certificate."),
  })
  .refine(({ certFile, keyFile }) => (certFile === undefined) === (keyFile === undefined), {
    error: "`certFile` and `keyFile` go together",
  });

/** Why a breaker is open: the decision point asked for a pause (429), or it failed. */
type BreakerKind = "rate" | "failure";

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
