import type { Clock, SetTimer } from "../../core/exchange.ts";
import type { Breaker, OpenBreaker } from "../pdp/breaker.ts";
import type { PolicyRefusal } from "../provider/provider.ts";
import { retryAfterSeconds, withRetry } from "../pdp/retry.ts";
import type { BreakerKind, PdpClient, PdpReply } from "../sideband/contract.ts";

/** How a call of the decision point ended. */
export type AuthZenOutcome =
  /** Status 200 and JSON. */
  | { readonly ok: true; readonly value: unknown; readonly headers: PdpReply["headers"] }
  /** Nothing to go by; `status` where there was an answer. */
  | {
      readonly ok: false;
      readonly refusal: PolicyRefusal;
      readonly note: string;
      readonly status: number | undefined;
    };

/** One call. */
export interface AuthZenCall {
  readonly path: string;
  /** `GET` without one. */
  readonly body?: string;
  /** Ties the logs of both sides together (AuthZEN, section 10.1.3). */
  readonly requestId: string;
  readonly signal: AbortSignal;
}

/** Calls the decision point; rejects only when nobody waits any more. */
export type CallAuthZen = (call: AuthZenCall) => Promise<AuthZenOutcome>;

/** How it is called. */
export interface AuthZenCallDeps {
  readonly client: PdpClient;
  readonly clock: Clock;
  readonly setTimer: SetTimer;
  /** Undefined where it is off. */
  readonly breaker: Breaker<BreakerKind> | undefined;
  readonly breakerPauseMs: number;
  readonly timeoutMs: number;
  readonly retries: number;
  readonly retryPauseMs: number;
  /** Headers of every call, those that say who we are among them. */
  readonly headers: () => Readonly<Record<string, string>> | Promise<Readonly<Record<string, string>>>;
  readonly onRetry?: (() => void) | undefined;
  /** Told whether the breaker is open, whenever that is looked at or changes. */
  readonly onBreaker?: ((isOpen: boolean) => void) | undefined;
}

type Attempt = { readonly reply: PdpReply } | { readonly error: string };

/** Makes the function that calls: breaker and retries around the HTTP client, and no decision from anything but a 200. */
export function createAuthZenCall(options: AuthZenCallDeps): CallAuthZen {
  const { client, clock, setTimer, breaker, timeoutMs, onBreaker } = options;

  async function attempts({ path, body, requestId, signal }: AuthZenCall): Promise<Attempt> {
    const bytes = Buffer.from(body ?? "");
    const headers = {
      Accept: "application/json",
      ...(body === undefined ? {} : { "Content-Type": "application/json", "Content-Length": String(bytes.length) }),
      "X-Request-ID": requestId,
      ...(await options.headers()),
    };
    const method = body === undefined ? "GET" : "POST";
    return withRetry(
      async (): Promise<Attempt> => {
        try {
          return { reply: await client.post({ method, path, headers, body: bytes, timeoutMs, signal }) };
        } catch (error) {
          return { error: errorText(error) };
        }
      },
      {
        retries: options.retries,
        pauseMs: options.retryPauseMs,
        setTimer,
        signal,
        isTransient: (attempt) => !("reply" in attempt) || attempt.reply.status >= 500,
        onRetry: options.onRetry,
      },
    );
  }

  function trip(attempt: Attempt): OpenBreaker<BreakerKind> | undefined {
    const pause = options.breakerPauseMs / 1000;
    if (!("reply" in attempt) || attempt.reply.status >= 500) return breaker?.trip("failure", pause);
    const { status, headers } = attempt.reply;
    if (status !== 429) return undefined;
    return breaker?.trip("rate", retryAfterSeconds(headers["retry-after"], clock.wall(), pause));
  }

  return async (call) => {
    const open = breaker?.check();
    onBreaker?.(open !== undefined);
    if (open !== undefined) return breakerOpen(open);
    const attempt = await attempts(call);
    const { signal } = call;
    // Somebody has gone: that says nothing about the decision point. Somebody's patience is over: that does.
    if (signal.aborted && signal.reason !== "timeout") throw new DOMException("nobody waits", "AbortError");
    const tripped = trip(attempt);
    if (tripped !== undefined) onBreaker?.(true);
    return "reply" in attempt ? toOutcome(attempt.reply, tripped) : unreachable(attempt.error);
  };
}

function toOutcome({ status, headers, body }: PdpReply, tripped: OpenBreaker<BreakerKind> | undefined): AuthZenOutcome {
  if (status === 429) return { ...rateLimitedOutcome(tripped?.remainingSeconds), status };
  if (status >= 500) return { ...unreachable(`status ${status}`), status };
  // Errors are never decisions, and redirects are not followed (AuthZEN, section 10.1.2).
  if (status !== 200) return { ok: false, refusal: pdpRefused, note: `the decision point answered ${status}`, status };
  try {
    return { ok: true, value: JSON.parse(body.toString("utf8")), headers };
  } catch {
    return unusable("its answer is no JSON");
  }
}

function breakerOpen({ kind, remainingSeconds }: OpenBreaker<BreakerKind>): AuthZenOutcome {
  if (kind === "rate") return rateLimitedOutcome(remainingSeconds);
  const note = "the decision point is left alone after a failure";
  return { ok: false, refusal: { ...unavailable, retryAfter: remainingSeconds }, note, status: undefined };
}

function rateLimitedOutcome(seconds: number | undefined): AuthZenOutcome & { readonly ok: false } {
  const denial: PolicyRefusal = {
    kind: "rate",
    code: "decision_point_rate_limited",
    reason: "too much is asked of the policy at the moment; try again later",
    ...(seconds === undefined ? {} : { retryAfter: seconds }),
  };
  return { ok: false, refusal: denial, note: "the decision point wants a pause", status: undefined };
}

function unreachable(problem: string): AuthZenOutcome & { readonly ok: false } {
  return { ok: false, refusal: unavailable, note: `no decision: ${problem}`, status: undefined };
}

/** The outcome where an answer came that cannot be understood: nothing follows from it, and waiting does not help. */
export function unusable(problem: string): AuthZenOutcome & { readonly ok: false } {
  return { ok: false, refusal: answerNotUsable, note: `no decision: ${problem}`, status: 200 };
}

const noDecisionReason = "no decision about this could be had, so it is refused";

const unavailable: PolicyRefusal = {
  kind: "unavailable",
  code: "decision_point_unavailable",
  reason: `${noDecisionReason}; try again later`,
};

const pdpRefused: PolicyRefusal = {
  kind: "unavailable",
  code: "decision_point_refused",
  reason: noDecisionReason,
  neverFailOpen: true,
};

const answerNotUsable: PolicyRefusal = {
  kind: "unavailable",
  code: "decision_not_usable",
  reason: noDecisionReason,
  neverFailOpen: true,
};

function errorText(error: unknown): string {
  if (!(error instanceof Error)) return String(error);
  return error.message === "" && "code" in error ? String(error.code) : error.message;
}

/** How long answers hold about which nothing is said, and at most. */
export interface CacheLimits {
  readonly fallbackMs: number;
  readonly maxMs: number;
}

/**
 * For how many milliseconds an answer may be used again, as its `Cache-Control` and `Age` say (RFC 9111, section 5.2.2).
 * We are the only one who uses it, so `private` is no hindrance.
 */
export function freshnessLifetimeMs(headers: PdpReply["headers"], { fallbackMs, maxMs }: CacheLimits): number {
  const directives = headerText(headers["cache-control"]).toLowerCase().split(",");
  const named = directives.map((directive) => directive.trim());
  if (named.some((directive) => /^no-(?:store|cache)\b/u.test(directive))) return 0;
  const ages = named.flatMap((directive) => {
    const seconds = /^max-age="?(\d+)"?$/u.exec(directive)?.[1];
    return seconds === undefined ? [] : [Number(seconds)];
  });
  // Of two that disagree the shorter one is believed.
  const lifetime = ages.length === 0 ? fallbackMs : Math.min(...ages) * 1000;
  const age = Number(headerText(headers["age"])) || 0;
  return Math.max(0, Math.min(maxMs, ages.length === 0 ? lifetime : lifetime - age * 1000));
}

function headerText(value: string | readonly string[] | undefined): string {
  return typeof value === "string" ? value : (value ?? []).join(",");
}
