import type { Config } from "../../../config/config.ts";
import { GatewayError } from "../../../errors.ts";
import { type Exchange, limitKeyOf } from "../../../core/exchange.ts";
import { createGlobTest } from "../../../lib/glob.ts";
import { KeyedCounter } from "../../../lib/keyed-counter.ts";
import type { Guard } from "../../../core/pipeline.ts";
import { methodFacts, methodNames } from "../../../protocol/methods.ts";
import { createTokenBuckets, type Rate, type TokenBucket, type TokenBuckets } from "../../../lib/token-bucket.ts";

/** Rates for the clients of one route; omitted ones are unlimited. */
export interface Rates {
  /** All messages of one principal. */
  readonly principal?: Rate | undefined;
  /** All messages of one session. */
  readonly session?: Rate | undefined;
  /** Messages of one principal by method; `*` matches any text. */
  readonly methods: Readonly<Record<string, Rate>>;
}

type RateScope = "principal" | "session" | "method";

/** Never refused, because they reduce work. */
const freeMethods: ReadonlySet<string> = new Set(["notifications/progress", "notifications/cancelled"]);

const wording: Readonly<Record<RateScope, string>> = {
  principal: "from this caller",
  session: "in this session",
  method: "of this method from this caller",
};

/**
 * Creates the guard that refuses clients above their rate and says when to try again (SC-071); undefined where nothing is
 * limited. A refused message takes no tokens.
 */
export function createRateGuard(rates: Rates, now: () => number): Guard | undefined {
  const principals = rates.principal && createTokenBuckets(rates.principal, now);
  const sessions = rates.session && createTokenBuckets(rates.session, now);
  const methodBuckets = createMethodBuckets(rates.methods, now);
  if (principals === undefined && sessions === undefined && methodBuckets === undefined) return undefined;

  function refusalOf({ principal, session, message }: Exchange): GatewayError | undefined {
    const method = message.method === undefined ? undefined : methodBuckets?.(message.method);
    const caller = limitKeyOf(principal);
    const own = principals?.get(caller);
    const inSession = session === undefined ? undefined : sessions?.get(session.id);
    const inMethod = method?.get(caller);
    const error =
      rateRefusal("principal", principals, own) ??
      rateRefusal("session", sessions, inSession) ??
      rateRefusal("method", method, inMethod);
    if (error !== undefined) return error;
    for (const bucket of [own, inSession, inMethod]) if (bucket !== undefined) bucket.tokens--;
    return undefined;
  }

  return {
    enter: (exchange) => {
      const { direction, message } = exchange;
      return direction === "client-to-server" && !freeMethods.has(message.method ?? "")
        ? refusalOf(exchange)
        : undefined;
    },
    answered: (_exchange, reply) => reply,
    failed: () => {},
  };
}

/** Finds the buckets for a method: an exact name before patterns, then the first pattern that matches. */
function createMethodBuckets(
  rates: Rates["methods"],
  now: () => number,
): ((method: string) => TokenBuckets | undefined) | undefined {
  const rows = Object.entries(rates).map(([pattern, rate]) => ({
    pattern,
    fits: createGlobTest([pattern]),
    buckets: createTokenBuckets(rate, now),
  }));
  if (rows.length === 0) return undefined;
  const search = (method: string): TokenBuckets | undefined =>
    (rows.find(({ pattern }) => pattern === method) ?? rows.find(({ fits }) => fits(method)))?.buckets;
  const known = new Map(methodNames.map((name) => [name, search(name)]));
  return (method) => (known.has(method) ? known.get(method) : search(method));
}

function rateRefusal(
  scope: RateScope,
  buckets: TokenBuckets | undefined,
  bucket: TokenBucket | undefined,
): GatewayError | undefined {
  if (buckets === undefined || bucket === undefined || bucket.tokens >= 1) return undefined;
  const retryAfter = Math.max(1, Math.ceil(buckets.waitMs(bucket) / 1000));
  const text = `too many messages ${wording[scope]}; retry in ${retryAfter} s`;
  return new GatewayError("rate_limited", text, { details: { scope, retryAfter } });
}

/** Bounds for requests that run at the same time. */
export interface ConcurrencyLimits {
  readonly total: number;
  readonly perPrincipal: number;
}

/** Counts running requests, per principal and in total. */
export interface Concurrency {
  /** Counts one more request of a caller until `leave`, or returns why that is too many. */
  enter(caller: string): GatewayError | undefined;
  leave(caller: string): void;
  readonly size: number;
}

/** A place is free again as soon as one request has ended. */
const concurrencyRetryAfter = 1;

/**
 * Creates the counter. The caller's bound is checked first, so that one flood is refused before it costs others. The
 * limits are read with every entry, because a reload changes them.
 */
export function createConcurrency(limits: ConcurrencyLimits): Concurrency {
  const callers = new KeyedCounter();
  let size = 0;
  return {
    enter: (caller) => {
      const { total, perPrincipal } = limits;
      if (!callers.add(caller, perPrincipal)) {
        const details = { current: perPrincipal, limit: perPrincipal, retryAfter: concurrencyRetryAfter };
        return new GatewayError("rate_limited", "this caller has too many requests in flight", { details });
      }
      if (size >= total) {
        callers.remove(caller);
        const details = { current: size, limit: total, retryAfter: concurrencyRetryAfter };
        return new GatewayError("overloaded", "too many requests are running", { details });
      }
      size++;
      return undefined;
    },
    leave: (caller) => {
      if (callers.of(caller) === 0) return;
      callers.remove(caller);
      size--;
    },
    get size() {
      return size;
    },
  };
}

/**
 * Creates the guard that bounds how many requests of clients run at once, over all routes and transports. Streams that only
 * listen may stay open for hours and do no work; they count as pending requests of their route alone.
 */
export function createConcurrencyGuard(running: Concurrency): Guard {
  const isCounted = ({ direction, message }: Exchange): boolean =>
    direction === "client-to-server" &&
    message.kind === "request" &&
    methodFacts(message.method)?.timeoutClass !== "stream";
  const leave = (exchange: Exchange): void => {
    if (isCounted(exchange)) running.leave(limitKeyOf(exchange.principal));
  };
  return {
    enter: (exchange) => (isCounted(exchange) ? running.enter(limitKeyOf(exchange.principal)) : undefined),
    answered: (exchange, reply) => {
      leave(exchange);
      return reply;
    },
    failed: leave,
  };
}

/** The bounds that a configuration asks for; mutable, because a reload changes them in place. */
export function concurrencyLimitsOf({ limits }: Config): ConcurrencyLimits {
  return { total: limits.requests, perPrincipal: limits.requestsPerPrincipal };
}
