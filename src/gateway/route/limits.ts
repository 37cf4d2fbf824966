import type { Config } from "../../config/config.ts";
import { GatewayError } from "../../errors.ts";
import type { Exchange } from "../../core/exchange.ts";
import { createGlobTest } from "../../lib/glob.ts";
import type { Guard } from "../../core/pipeline.ts";
import { methodFacts, methodNames } from "../../protocol/methods.ts";
import { createTokenBuckets, type Rate, type TokenBucket, type TokenBuckets } from "../../lib/token-bucket.ts";

/** What clients may send on one route; what is not given is not limited. */
export interface Rates {
  /** All messages of one principal. */
  readonly principal?: Rate | undefined;
  /** All messages of one session. */
  readonly session?: Rate | undefined;
  /** Messages of one principal by method, `*` standing for any text. */
  readonly methods: Readonly<Record<string, Rate>>;
}

type RateScope = "principal" | "session" | "method";

/** They help to need less: refusing them would keep work going that nobody wants. */
const freeMethods: ReadonlySet<string> = new Set(["notifications/progress", "notifications/cancelled"]);

const wording: Readonly<Record<RateScope, string>> = {
  principal: "this caller",
  session: "this session",
  method: "this method by this caller",
};

/**
 * Makes the guard that refuses clients who send more than their share, with when to come back (SC-071); undefined
 * where nothing is limited. A message that is refused costs nothing, whichever of the rates it met.
 */
export function createRateGuard(rates: Rates, now: () => number): Guard | undefined {
  const principals = rates.principal && createTokenBuckets(rates.principal, now);
  const sessions = rates.session && createTokenBuckets(rates.session, now);
  const methodBuckets = createMethodBuckets(rates.methods, now);
  if (principals === undefined && sessions === undefined && methodBuckets === undefined) return undefined;

  function refusalOf({ principal, session, message }: Exchange): GatewayError | undefined {
    const method = message.method === undefined ? undefined : methodBuckets?.(message.method);
    const own = principals?.get(principal.id);
    const inSession = session === undefined ? undefined : sessions?.get(session.id);
    const inMethod = method?.get(principal.id);
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

/** Finds the buckets for a method: its own name before patterns, and of those the first that fits. */
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
  const text = `too many messages of ${wording[scope]}; come back in ${retryAfter} s`;
  return new GatewayError("rate_limited", text, { details: { scope, retryAfter } });
}

/** How much may go on at once. */
export interface ConcurrencyLimits {
  readonly total: number;
  readonly perPrincipal: number;
}

/** Counts what goes on at once, for each principal and in all. */
export interface Concurrency {
  /** Takes a place for a principal, to be given back by `leave`; or says why there is none. */
  enter(principal: string): GatewayError | undefined;
  leave(principal: string): void;
  readonly size: number;
}

const keptCounters = 1000;
/** Whoever is turned away finds a place again as soon as one running request has ended. */
const concurrencyRetryAfter = 1;

/**
 * Makes the counter. The principal's own bound comes first, so that a flood of one is refused before it costs others.
 * The limits are read with every entry: whoever hands them in may change them.
 */
export function createConcurrency(limits: ConcurrencyLimits): Concurrency {
  const byPrincipal = new Map<string, { count: number }>();
  let size = 0;

  function add(principal: string): void {
    // Counters of those who have nothing running are kept for a while: a table whose keys come and go with every request
    // makes new tables again and again, and the garbage of each keeps the next alive.
    if (byPrincipal.size >= keptCounters) {
      for (const [name, { count }] of byPrincipal) if (count === 0) byPrincipal.delete(name);
    }
    byPrincipal.set(principal, { count: 1 });
  }

  return {
    enter: (principal) => {
      const { total, perPrincipal } = limits;
      const own = byPrincipal.get(principal);
      const current = own?.count ?? 0;
      if (current >= perPrincipal) {
        const details = { current, limit: perPrincipal, retryAfter: concurrencyRetryAfter };
        return new GatewayError("rate_limited", "too many requests of this caller are running", { details });
      }
      if (size >= total) {
        const details = { current: size, limit: total, retryAfter: concurrencyRetryAfter };
        return new GatewayError("overloaded", "too many requests are running", { details });
      }
      if (own === undefined) add(principal);
      else own.count++;
      size++;
      return undefined;
    },
    leave: (principal) => {
      const own = byPrincipal.get(principal);
      if (own === undefined) return;
      own.count--;
      size--;
    },
    get size() {
      return size;
    },
  };
}

/** Makes the guard that bounds how many requests of clients run at once, over all routes and transports. */
export function createConcurrencyGuard(running: Concurrency): Guard {
  const leave = (exchange: Exchange): void => {
    if (counts(exchange)) running.leave(exchange.principal.id);
  };
  return {
    enter: (exchange) => (counts(exchange) ? running.enter(exchange.principal.id) : undefined),
    answered: (exchange, reply) => {
      leave(exchange);
      return reply;
    },
    failed: leave,
  };
}

/** A request that only listens may stay for hours and does no work; the number of open requests bounds it. */
function counts({ direction, message }: Exchange): boolean {
  if (direction !== "client-to-server" || message.kind !== "request") return false;
  return methodFacts(message.method)?.timeoutClass !== "stream";
}

/** The bounds that a configuration asks for; mutable, because a reload changes them in place. */
export function concurrencyLimitsOf({ limits }: Config) {
  return { total: limits.requests, perPrincipal: limits.requestsPerPrincipal };
}
