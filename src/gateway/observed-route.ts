import type { Clock, SetTimer } from "../exchange.ts";
import type { ParseLimits } from "../protocol/message.ts";
import { createCorrelator } from "../sessions/correlation/correlator.ts";
import { defaultTtl } from "../sessions/correlation/method-plan.ts";
import { defaultCorrelationLimits } from "../sessions/correlation/options.ts";
import type { Logger } from "../telemetry/log.ts";
import type { HttpUpstream } from "../transports/streamable-http/client.ts";
import type { Serve } from "./http.ts";
import { createPassThrough } from "./pass-through.ts";
import { createTrafficObserver } from "./traffic-observer.ts";

/** What watching needs of the gateway. */
export interface ObservedRouteDeps {
  readonly limits: ParseLimits;
  readonly log: Logger;
  readonly clock: Clock;
  readonly setTimer: SetTimer;
}

/** Serves a route that only watches. */
export interface ObservedRoute {
  readonly serve: Serve;
  /** Forgets what was being watched. */
  close(): void;
}

/** A route that only watches: nothing is refused, changed or held up. */
export function createObservedRoute(
  name: string,
  upstream: HttpUpstream,
  { limits, log, clock, setTimer }: ObservedRouteDeps,
): ObservedRoute {
  const correlator = createCorrelator<undefined>({
    clock,
    setTimer,
    mode: "observe",
    limits: defaultCorrelationLimits,
    ttl: defaultTtl,
  });
  const observer = createTrafficObserver({ route: name, limits, correlator, log });
  const pass = createPassThrough(upstream, observer, (error) => {
    log.error({ route: name, reason: String(error) }, "the observer failed; traffic is not affected");
  });
  return {
    serve: async (request, response, route, { door }) => {
      const release = route.hold();
      try {
        await pass(request, response, door.credentialHeaders);
      } finally {
        release();
      }
    },
    close: () => {
      correlator.close();
    },
  };
}
