import type { Clock, SetTimer } from "../exchange.ts";
import type { ParseLimits } from "../protocol/message.ts";
import { createCorrelator } from "../sessions/correlation/correlator.ts";
import { defaultTtl } from "../sessions/correlation/method-plan.ts";
import { defaultCorrelationLimits } from "../sessions/correlation/options.ts";
import type { Logger } from "../telemetry/log.ts";
import type { HttpEndpoint } from "../transports/streamable-http/client.ts";
import type { RouteHandler } from "./http.ts";
import { createObservedExchanges } from "./observed-exchanges.ts";
import { createPassThrough } from "./pass-through.ts";
import type { WireObserver } from "./taps.ts";
import { createTrafficObserver } from "./traffic-observer.ts";

/** What watching needs of the gateway. */
export interface ObservedRouteDeps {
  readonly limits: ParseLimits;
  readonly log: Logger;
  readonly clock: Clock;
  readonly setTimer: SetTimer;
  /** Counts what passes, and records it where that is wanted. */
  readonly observer: WireObserver;
  readonly newExchangeId: () => string;
}

/** Serves a route that only watches. */
export interface ObservedRoute {
  readonly serve: RouteHandler;
  /** Forgets what was being watched. */
  close(): void;
}

/** A route that only watches: nothing is refused, changed or held up. */
export function createObservedRoute(
  name: string,
  upstream: HttpEndpoint,
  { limits, log, clock, setTimer, observer: tap, newExchangeId }: ObservedRouteDeps,
): ObservedRoute {
  const correlator = createCorrelator<undefined>({
    clock,
    setTimer,
    mode: "observe",
    limits: defaultCorrelationLimits,
    ttl: defaultTtl,
  });
  const observer = createTrafficObserver({
    route: name,
    limits,
    correlator,
    log,
    exchanges: createObservedExchanges({ route: name, observer: tap, clock, newExchangeId }),
  });
  const pass = createPassThrough(upstream, observer, (error) => {
    log.error({ route: name, reason: String(error) }, "the observer failed; traffic is not affected");
  });
  return {
    serve: async (request, response, route, { authentication: door, principal }) => {
      const release = route.retainUpstream();
      try {
        await pass(request, response, door.credentialHeaders, principal);
      } finally {
        release();
      }
    },
    close: () => {
      correlator.close();
    },
  };
}
