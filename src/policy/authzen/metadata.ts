import type { Clock } from "../../exchange.ts";
import { freshnessLifetimeMs } from "./cache-terms.ts";
import { unusable, type CallAuthZen, type AuthZenCall, type AuthZenOutcome } from "./pdp-call.ts";
import { metadataPath, parseMetadata, defaultEndpoints, type Endpoints } from "./pdp-url.ts";

/** The endpoints of a decision point, or why they are not known. */
export type EndpointsOutcome =
  | { readonly ok: true; readonly endpoints: Endpoints }
  | Extract<AuthZenOutcome, { readonly ok: false }>;

/** Finds the endpoints of a decision point: at once where they are known. */
export interface Discovery {
  find(call: Pick<AuthZenCall, "requestId" | "signal">): EndpointsOutcome | Promise<EndpointsOutcome>;
  /** It does not take several questions at once, whatever was thought. */
  disableBatches(): void;
}

/** What discovery is made of. */
export interface DiscoveryOptions {
  readonly url: string;
  readonly basePath: string;
  /** Without it the endpoints have the paths of the specification. */
  readonly isOn: boolean;
  readonly call: CallAuthZen;
  readonly clock: Pick<Clock, "now">;
}

const metadataLifetime = { fallbackMs: 3_600_000, maxMs: 86_400_000 };
/** Metadata is not read more often, whatever it says. */
const leastMs = 60_000;

/** Makes discovery (AuthZEN, section 9): read when first needed, and again when it is out of date. */
export function createDiscovery({ url, basePath, isOn, call, clock }: DiscoveryOptions): Discovery {
  let known: Endpoints | undefined = isOn ? undefined : defaultEndpoints(basePath);
  let until = isOn ? 0 : Number.POSITIVE_INFINITY;

  function remember(endpoints: Endpoints, lifetimeMs: number): EndpointsOutcome {
    known = endpoints;
    until = clock.now() + Math.max(leastMs, lifetimeMs);
    return { ok: true, endpoints };
  }

  async function read(circumstances: Pick<AuthZenCall, "requestId" | "signal">): Promise<EndpointsOutcome> {
    const outcome = await call({ ...circumstances, path: metadataPath(basePath) });
    if (outcome.ok) {
      const reading = parseMetadata(outcome.value, url);
      if (!reading.ok) return unusable(reading.problem);
      return remember(reading.endpoints, freshnessLifetimeMs(outcome.headers, metadataLifetime));
    }
    if (outcome.status === 404) return remember(defaultEndpoints(basePath), metadataLifetime.fallbackMs);
    // What was known is better than nothing, where the decision point is only in trouble.
    return known === undefined || outcome.refusal.neverFailOpen === true ? outcome : remember(known, leastMs);
  }

  return {
    find: (circumstances) =>
      known !== undefined && clock.now() < until ? { ok: true, endpoints: known } : read(circumstances),
    disableBatches: () => {
      if (known !== undefined) known = { ...known, evaluations: undefined };
    },
  };
}
