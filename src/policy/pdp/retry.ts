import * as z from "zod";

import type { SetTimer } from "../../core/exchange.ts";

export interface RetryOptions<Result> {
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

/** A config field for an HTTP header name. */
export const headerName = z
  .string()
  .regex(/^[!#$%&'*+.^_`|~\dA-Za-z-]+$/u, { error: "is not the name of an HTTP header" });

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
