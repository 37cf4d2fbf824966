import type { Clock } from "../../core/exchange.ts";
import {
  type AuthZenCall,
  type AuthZenOutcome,
  type CallAuthZen,
  freshnessLifetimeMs,
  unusableAnswer,
} from "./pdp-call.ts";

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
      if (!reading.ok) return unusableAnswer(reading.problem);
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

const wellKnown = "/.well-known/authzen-configuration";

/** Where the endpoints of a decision point are, as paths below its origin. */
export interface Endpoints {
  readonly evaluation: string;
  /** Undefined where it takes one question at a time. */
  readonly evaluations: string | undefined;
  /** Whether it may attach obligations to its decisions, and wants to know which ones we understand. */
  readonly hasObligations: boolean;
}

/** The path of the metadata: the well-known part goes between host and path (AuthZEN, section 9.2). */
function metadataPath(basePath: string): string {
  return `${wellKnown}${basePath}`;
}

/** Endpoints where there is no metadata (AuthZEN, section 10.1). */
function defaultEndpoints(basePath: string): Endpoints {
  return {
    evaluation: `${basePath}/access/v1/evaluation`,
    evaluations: `${basePath}/access/v1/evaluations`,
    hasObligations: false,
  };
}

/** Metadata that was understood, or why it cannot be used. */
export type ParsedMetadata =
  | { readonly ok: true; readonly endpoints: Endpoints }
  | { readonly ok: false; readonly problem: string };

/**
 * Reads metadata (AuthZEN, section 9). It must be about the very URL it was found from; endpoints elsewhere are not used,
 * for the token goes to the decision point and nobody else.
 */
function parseMetadata(value: unknown, url: string): ParsedMetadata {
  if (typeof value !== "object" || value === null) return metadataProblem("is no JSON object");
  const {
    policy_decision_point: identifier,
    access_evaluation_endpoint: evaluation,
    access_evaluations_endpoint: evaluations,
    supported_obligations: obligations,
  } = value as Readonly<Record<string, unknown>>;
  if (typeof identifier !== "string" || withoutSlash(identifier) !== withoutSlash(url))
    return metadataProblem("is about another decision point than the configured one");
  const one = pathOn(evaluation, url);
  if (one === undefined) return metadataProblem("has no `access_evaluation_endpoint` on the configured host");
  const many = evaluations === undefined ? undefined : pathOn(evaluations, url);
  if (evaluations !== undefined && many === undefined)
    return metadataProblem("has an `access_evaluations_endpoint` that is not on the configured host");
  const hasObligations = Array.isArray(obligations) && obligations.length > 0;
  return { ok: true, endpoints: { evaluation: one, evaluations: many, hasObligations } };
}

function metadataProblem(problem: string): ParsedMetadata {
  return { ok: false, problem: `the metadata of the decision point ${problem}` };
}

function pathOn(endpoint: unknown, url: string): string | undefined {
  if (typeof endpoint !== "string" || !URL.canParse(endpoint)) return undefined;
  const { origin, pathname, search } = new URL(endpoint);
  return origin === new URL(url).origin ? `${pathname}${search}` : undefined;
}

function withoutSlash(url: string): string {
  return url.replace(/\/+$/u, "");
}
