import { GatewayError } from "../errors.ts";
import type { Exchange } from "../exchange.ts";
import { createGlobTest } from "../intercept/method-glob.ts";
import type { Guard } from "../pipeline.ts";
import { methodNames } from "../protocol/methods.ts";
import { createTokenBuckets } from "../state/token-buckets.ts";
import type { TokenBucket, Rate, TokenBuckets } from "../state/token-buckets.ts";

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
