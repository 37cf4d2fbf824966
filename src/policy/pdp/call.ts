import type { Clock, SetTimer } from "../../core/exchange.ts";
import type { Breaker, OpenBreaker } from "./breaker.ts";
import { abortError, type PdpClient, type PdpReply, type PdpRequest } from "./client.ts";
import { retryAfterSeconds, withRetry } from "./retry.ts";

/** How a call ended: a reply of any status or a network error, and the breaker if that opened it. */
export type PdpOutcome = (
  | { readonly reply: PdpReply; readonly error?: undefined }
  | { readonly reply?: undefined; readonly error: string }
) & { readonly tripped: OpenBreaker | undefined };

/** One call, with its retries. */
export interface PdpCall extends PdpRequest {
  readonly retries: number;
  /** Most milliseconds for everything, retries and pauses included; unlimited if omitted. */
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
