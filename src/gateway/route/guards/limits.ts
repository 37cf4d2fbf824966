import type { Config } from "../../../config/config.ts";
import { GatewayError } from "../../../errors.ts";
import { type Exchange, limitKeyOf } from "../../../core/exchange.ts";
import { createGlobTest } from "../../../lib/text/glob.ts";
import { KeyedCounter } from "../../../lib/keyed-counter.ts";
import type { Guard, PipelineStep, Reply } from "../../../core/pipeline.ts";
import type { Direction } from "../../../protocol/message.ts";
import { methodFacts, methodNames } from "../../../protocol/methods.ts";
import type { CreateBuckets, Rate, TokenBucket, TokenBuckets } from "../../../lib/token-bucket.ts";

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

/** Never refused, because they reduce load. */
const freeMethods: ReadonlySet<string> = new Set(["notifications/progress", "notifications/cancelled"]);

const wording: Readonly<Record<RateScope, string>> = {
  principal: "from this caller",
  session: "in this session",
  method: "of this method from this caller",
};

/**
 * Creates the step that refuses clients above their rate and says when to try again (SC-071); undefined where nothing is
 * limited. A refused message takes no tokens. A message waits only where the limit is shared with other gateways and this
 * one has no tokens left.
 */
export function createRateLimit(rates: Rates, createBuckets: CreateBuckets): PipelineStep | undefined {
  let isShared = false;
  const create: CreateBuckets = (rate, name) => {
    const buckets = createBuckets(rate, name);
    isShared ||= buckets.refill !== undefined;
    return buckets;
  };
  const principals = rates.principal && create(rates.principal, "principal");
  const sessions = rates.session && create(rates.session, "session");
  const methodBuckets = createMethodBuckets(rates.methods, create);
  if (principals === undefined && sessions === undefined && methodBuckets === undefined) return undefined;

  /** The limits that a message is under, with its buckets. */
  function limitsOf({ principal, session, message }: Exchange): readonly AppliedLimit[] {
    const method = message.method === undefined ? undefined : methodBuckets?.(message.method);
    const caller = limitKeyOf(principal);
    const applied: AppliedLimit[] = [];
    if (principals !== undefined) applied.push(appliedLimit("principal", principals, caller));
    if (sessions !== undefined && session !== undefined) applied.push(appliedLimit("session", sessions, session.id));
    if (method !== undefined) applied.push(appliedLimit("method", method, caller));
    return applied;
  }

  const isFree = ({ direction, message }: Exchange): boolean =>
    direction !== "client-to-server" || freeMethods.has(message.method ?? "");

  const local: Guard = {
    enter: (exchange) => (isFree(exchange) ? undefined : takeTokens(limitsOf(exchange))),
    answered: (_exchange, reply) => reply,
    failed: () => {},
  };
  if (!isShared) return local;
  return (handle) => {
    async function refillAndHandle(exchange: Exchange, limits: readonly AppliedLimit[]): Promise<Reply> {
      await refillEmpty(limits);
      const refusal = takeTokens(limitsOf(exchange));
      if (refusal !== undefined) throw refusal;
      return handle(exchange);
    }
    return (exchange) => {
      const limits = isFree(exchange) ? [] : limitsOf(exchange);
      return takeTokens(limits) === undefined ? handle(exchange) : refillAndHandle(exchange, limits);
    };
  };
}

interface AppliedLimit {
  readonly scope: RateScope;
  readonly buckets: TokenBuckets;
  readonly key: string;
  readonly bucket: TokenBucket;
}

function appliedLimit(scope: RateScope, buckets: TokenBuckets, key: string): AppliedLimit {
  return { scope, buckets, key, bucket: buckets.get(key) };
}

/** Takes a token from each limit, or from none if one has no token left. */
function takeTokens(limits: readonly AppliedLimit[]): GatewayError | undefined {
  for (const { scope, buckets, bucket } of limits)
    if (bucket.tokens < 1) return rateRefusal(scope, buckets.waitMs(bucket));
  for (const { bucket } of limits) bucket.tokens--;
  return undefined;
}

async function refillEmpty(limits: readonly AppliedLimit[]): Promise<void> {
  const empty = limits.filter(({ bucket }) => bucket.tokens < 1);
  await Promise.all(empty.map(async ({ buckets, key }) => buckets.refill?.(key)));
}

/** Finds the buckets for a method: an exact name before patterns, then the first pattern that matches. */
function createMethodBuckets(
  rates: Rates["methods"],
  createBuckets: CreateBuckets,
): ((method: string) => TokenBuckets | undefined) | undefined {
  const rows = Object.entries(rates).map(([pattern, rate]) => ({
    pattern,
    fits: createGlobTest([pattern]),
    buckets: createBuckets(rate, `method ${pattern}`),
  }));
  if (rows.length === 0) return undefined;
  const search = (method: string): TokenBuckets | undefined =>
    (rows.find(({ pattern }) => pattern === method) ?? rows.find(({ fits }) => fits(method)))?.buckets;
  const known = new Map(methodNames.map((name) => [name, search(name)]));
  return (method) => (known.has(method) ? known.get(method) : search(method));
}

function rateRefusal(scope: RateScope, waitMs: number): GatewayError {
  const retryAfter = Math.max(1, Math.ceil(waitMs / 1000));
  const text = `too many messages ${wording[scope]}; retry in ${retryAfter} s`;
  return new GatewayError("rate_limited", text, { details: { scope, retryAfter } });
}

/** Bounds for messages that are in the gateway at the same time. */
export interface ConcurrencyLimits {
  readonly total: number;
  readonly perPrincipal: number;
}

/** Counts messages in the gateway, per principal and in total. */
export interface Concurrency {
  /** Counts one more message of a caller until `leave`, or returns why that is too many. */
  enter(caller: string): GatewayError | undefined;
  leave(caller: string): void;
  readonly size: number;
}

/** A slot is free again as soon as one message has left. */
const concurrencyRetryAfter = 1;

/**
 * Creates the counter. The caller's bound is checked first, so that one flood is refused before others are. The
 * limits are read with every entry, because a reload changes them.
 */
export function createConcurrency(limits: ConcurrencyLimits, what = "requests"): Concurrency {
  const callers = new KeyedCounter();
  let size = 0;
  return {
    enter: (caller) => {
      const { total, perPrincipal } = limits;
      if (!callers.add(caller, perPrincipal)) {
        const details = { current: perPrincipal, limit: perPrincipal, retryAfter: concurrencyRetryAfter };
        return new GatewayError("rate_limited", `this caller has too many ${what} in flight`, { details });
      }
      if (size >= total) {
        callers.remove(caller);
        const details = { current: size, limit: total, retryAfter: concurrencyRetryAfter };
        return new GatewayError("overloaded", `too many ${what} are running`, { details });
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

/** Counts what clients have on its way, each by itself within the same bounds. */
export interface MessageCounters {
  readonly requests: Concurrency;
  readonly notifications: Concurrency;
}

export function createMessageCounters(limits: ConcurrencyLimits, sender: "" | "server " = ""): MessageCounters {
  return {
    requests: createConcurrency(limits, `${sender}requests`),
    notifications: createConcurrency(limits, `${sender}notifications`),
  };
}

/**
 * Creates the guard that bounds how many messages of clients are here at once, over all routes and transports. Streams that
 * only listen may stay open for hours and do no work; they count as pending requests of their route alone. Notifications
 * are counted by themselves: a caller that has all its requests running must still be able to cancel them. What a client
 * answers to servers is bounded by what they asked.
 *
 * What servers send on a route is counted in the same way, by another guard. The pending guard, which is innermost, does not
 * see what waits for an interceptor or a policy before it was sent, or after its answer came.
 */
export function createConcurrencyGuard(
  { requests, notifications }: MessageCounters,
  sender: Direction = "client-to-server",
): Guard {
  const counterOf = ({ direction, message }: Exchange): Concurrency | undefined => {
    if (direction !== sender) return undefined;
    if (message.kind === "notification") return notifications;
    const isCounted = message.kind === "request" && methodFacts(message.method)?.timeoutClass !== "stream";
    return isCounted ? requests : undefined;
  };
  const leave = (exchange: Exchange): void => counterOf(exchange)?.leave(limitKeyOf(exchange.principal));
  return {
    enter: (exchange) => counterOf(exchange)?.enter(limitKeyOf(exchange.principal)),
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
