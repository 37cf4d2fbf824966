import { GatewayError } from "../errors.ts";
import type { Exchange } from "../exchange.ts";
import type { Guard } from "../pipeline.ts";
import { methodFacts } from "../protocol/methods.ts";

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
