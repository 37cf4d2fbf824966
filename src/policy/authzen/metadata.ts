import type { Clock } from "../../core/exchange.ts";
import type { MaybePromise } from "../../lib/is-promise.ts";
import {
  type AuthZenCall,
  type CallAuthZen,
  type FailedCall,
  freshnessLifetimeMs,
  unusableAnswer,
} from "./pdp-call.ts";

/** The endpoints of a decision point, as paths on its origin. */
export interface Endpoints {
  readonly evaluation: string;
  /** Undefined if it takes no batches. */
  readonly evaluations: string | undefined;
  /** Whether decisions may carry obligations, and requests must say which ones are supported. */
  readonly hasObligations: boolean;
}

export type EndpointsOutcome = { readonly ok: true; readonly endpoints: Endpoints } | FailedCall;

/** Finds the endpoints of a decision point. */
export interface Discovery {
  find(call: Pick<AuthZenCall, "requestId" | "signal">): MaybePromise<EndpointsOutcome>;
  /** Notes that the decision point takes no batches after all. */
  disableBatches(): void;
}

export interface DiscoveryDeps {
  readonly url: string;
  readonly basePath: string;
  /** If false, the endpoints have the paths of the specification. */
  readonly isEnabled: boolean;
  readonly call: CallAuthZen;
  readonly clock: Pick<Clock, "now">;
}

const cacheLimits = { fallbackMs: 3_600_000, maxMs: 86_400_000 };
const minLifetimeMs = 60_000;

/** Creates discovery (AuthZEN, section 9): metadata is read when first needed, and again when it expires. */
export function createDiscovery({ url, basePath, isEnabled, call, clock }: DiscoveryDeps): Discovery {
  let known: Endpoints | undefined = isEnabled ? undefined : defaultEndpoints(basePath);
  let until = isEnabled ? 0 : Number.POSITIVE_INFINITY;

  function remember(endpoints: Endpoints, lifetimeMs: number): EndpointsOutcome {
    known = endpoints;
    until = clock.now() + Math.max(minLifetimeMs, lifetimeMs);
    return { ok: true, endpoints };
  }

  async function read(context: Pick<AuthZenCall, "requestId" | "signal">): Promise<EndpointsOutcome> {
    // The well-known segment goes between host and path (AuthZEN, section 9.2).
    const outcome = await call({ ...context, path: `/.well-known/authzen-configuration${basePath}` });
    if (outcome.ok) {
      const metadata = parseMetadata(outcome.value, url);
      return "problem" in metadata
        ? unusableAnswer(`the metadata of the decision point ${metadata.problem}`)
        : remember(metadata, freshnessLifetimeMs(outcome.headers, cacheLimits));
    }
    if (outcome.status === 404) return remember(defaultEndpoints(basePath), cacheLimits.fallbackMs);
    // If the decision point is only down, expired metadata is better than none.
    return known === undefined || outcome.refusal.neverFailOpen === true ? outcome : remember(known, minLifetimeMs);
  }

  return {
    find: (context) => (known !== undefined && clock.now() < until ? { ok: true, endpoints: known } : read(context)),
    disableBatches: () => {
      if (known !== undefined) known = { ...known, evaluations: undefined };
    },
  };
}

/** AuthZEN, section 10.1. */
function defaultEndpoints(basePath: string): Endpoints {
  return {
    evaluation: `${basePath}/access/v1/evaluation`,
    evaluations: `${basePath}/access/v1/evaluations`,
    hasObligations: false,
  };
}

/**
 * Parses metadata (AuthZEN, section 9). It must name the configured URL, and endpoints on other hosts are rejected: the
 * token is for the decision point only.
 */
function parseMetadata(value: unknown, url: string): Endpoints | { readonly problem: string } {
  if (typeof value !== "object" || value === null) return { problem: "is not a JSON object" };
  const {
    policy_decision_point: identifier,
    access_evaluation_endpoint: single,
    access_evaluations_endpoint: batch,
    supported_obligations: obligations,
  } = value as Readonly<Record<string, unknown>>;
  if (typeof identifier !== "string" || withoutSlash(identifier) !== withoutSlash(url))
    return { problem: "is about another decision point than the configured one" };
  const evaluation = pathOn(single, url);
  if (evaluation === undefined) return { problem: "has no `access_evaluation_endpoint` on the configured host" };
  const evaluations = batch === undefined ? undefined : pathOn(batch, url);
  if (batch !== undefined && evaluations === undefined)
    return { problem: "has an `access_evaluations_endpoint` that is not on the configured host" };
  return { evaluation, evaluations, hasObligations: Array.isArray(obligations) && obligations.length > 0 };
}

function pathOn(endpoint: unknown, url: string): string | undefined {
  if (typeof endpoint !== "string" || !URL.canParse(endpoint)) return undefined;
  const { origin, pathname, search } = new URL(endpoint);
  return origin === new URL(url).origin ? `${pathname}${search}` : undefined;
}

function withoutSlash(url: string): string {
  return url.replace(/\/+$/u, "");
}
