import type { Clock } from "../../core/exchange.ts";
import type { MaybePromise } from "../../lib/is-promise.ts";
import { defaultLimits } from "../../protocol/message.ts";
import { scan } from "../../protocol/json/scan.ts";
import type { OpenBreaker, PdpCaller } from "../pdp/call.ts";
import type { PdpReply } from "../pdp/client.ts";
import type { PolicyRefusal } from "../provider/provider.ts";

/** How a call of the decision point ended. */
export type AuthZenOutcome =
  /** Status 200 with JSON. */
  | { readonly ok: true; readonly value: unknown; readonly headers: PdpReply["headers"] }
  /** No usable answer; `status` is undefined if there was no reply. */
  | FailedCall;

export interface FailedCall {
  readonly ok: false;
  readonly refusal: PolicyRefusal;
  /** For operators. */
  readonly note: string;
  readonly status: number | undefined;
}

/** One call. */
export interface AuthZenCall {
  readonly path: string;
  /** A call without a body is a `GET`. */
  readonly body?: string;
  /** Correlates the logs of both sides (AuthZEN, section 10.1.3). */
  readonly requestId: string;
  readonly signal: AbortSignal;
}

/** Calls the decision point; rejects only if the caller disconnected. */
export type CallAuthZen = (call: AuthZenCall) => Promise<AuthZenOutcome>;

export interface AuthZenCallDeps {
  readonly pdp: PdpCaller;
  readonly timeoutMs: number;
  readonly retries: number;
  /** Headers of every call, with the gateway's credentials. */
  readonly headers: Readonly<Record<string, string>>;
  /** Called whenever the breaker is checked or opens. */
  readonly onBreaker?: ((isOpen: boolean) => void) | undefined;
}

/** Creates the function that calls the decision point. Only a 200 with JSON is an answer. */
export function createAuthZenCall({ pdp, timeoutMs, retries, headers, onBreaker }: AuthZenCallDeps): CallAuthZen {
  return async ({ path, body, requestId, signal }) => {
    const open = pdp.checkBreaker();
    onBreaker?.(open !== undefined);
    if (open !== undefined) return breakerOpen(open);
    const bytes = Buffer.from(body ?? "");
    const { reply, error, tripped } = await pdp.call({
      method: body === undefined ? "GET" : "POST",
      path,
      headers: {
        Accept: "application/json",
        ...(body === undefined ? {} : { "Content-Type": "application/json", "Content-Length": String(bytes.length) }),
        "X-Request-ID": requestId,
        ...headers,
      },
      body: bytes,
      timeoutMs,
      signal,
      retries,
    });
    if (tripped !== undefined) onBreaker?.(true);
    return reply === undefined ? unreachable(error) : toOutcome(reply, tripped);
  };
}

function toOutcome({ status, headers, body }: PdpReply, tripped: OpenBreaker | undefined): AuthZenOutcome {
  if (status === 429) return { ...rateLimited(tripped?.remainingSeconds), status };
  if (status >= 500) return { ...unreachable(`status ${status}`), status };
  // An error status is never a decision, and redirects are not followed (AuthZEN, section 10.1.2).
  if (status !== 200) return { ok: false, refusal: pdpRejected, note: `the decision point answered ${status}`, status };
  const outline = scan(body, 0, defaultLimits.maxDepth);
  if ("reason" in outline) return unusableAnswer("its answer is not JSON");
  // It is ambiguous which of two decisions was meant (RFC 8259, section 4).
  if (outline.duplicateAt >= 0) return unusableAnswer("its answer has a member twice");
  return { ok: true, value: JSON.parse(body.toString("utf8")), headers };
}

function breakerOpen({ kind, remainingSeconds }: OpenBreaker): FailedCall {
  if (kind === "rate") return rateLimited(remainingSeconds);
  const note = "the circuit breaker is open";
  return { ok: false, refusal: { ...unavailable, retryAfter: remainingSeconds }, note, status: undefined };
}

function rateLimited(seconds: number | undefined): FailedCall {
  const refusal: PolicyRefusal = {
    kind: "rate",
    code: "decision_point_rate_limited",
    reason: "The authorization service is rate limited; try again later.",
    ...(seconds === undefined ? {} : { retryAfter: seconds }),
  };
  return { ok: false, refusal, note: "the decision point is rate limiting us", status: undefined };
}

function unreachable(problem: string): FailedCall {
  return { ok: false, refusal: unavailable, note: `no decision: ${problem}`, status: undefined };
}

/** The outcome of a reply that cannot be understood: waiting does not help, and it never fails open. */
export function unusableAnswer(problem: string): FailedCall {
  return { ok: false, refusal: notUsable, note: `no decision: ${problem}`, status: 200 };
}

const reason = "Authorization is unavailable; request denied.";

const unavailable: PolicyRefusal = { kind: "unavailable", code: "decision_point_unavailable", reason };
const pdpRejected: PolicyRefusal = { kind: "unavailable", code: "decision_point_refused", reason, neverFailOpen: true };
const notUsable: PolicyRefusal = { kind: "unavailable", code: "decision_not_usable", reason, neverFailOpen: true };

/** Limits for how long an answer may be reused. */
export interface CacheLimits {
  /** Without a `max-age`. */
  readonly fallbackMs: number;
  readonly maxMs: number;
}

/**
 * How many milliseconds an answer may be reused, from its `Cache-Control` and `Age` (RFC 9111, section 5.2.2). The cache
 * is not shared, so `private` answers may be kept.
 */
export function freshnessLifetimeMs(headers: PdpReply["headers"], { fallbackMs, maxMs }: CacheLimits): number {
  const directives = headerText(headers["cache-control"])
    .toLowerCase()
    .split(",")
    .map((directive) => directive.trim());
  if (directives.some((directive) => /^no-(?:store|cache)\b/u.test(directive))) return 0;
  const maxAges = directives.flatMap((directive) => {
    const seconds = /^max-age="?(\d+)"?$/u.exec(directive)?.[1];
    return seconds === undefined ? [] : [Number(seconds)];
  });
  const age = Number(headerText(headers["age"])) || 0;
  // If there are several, the shortest wins.
  const lifetimeMs = maxAges.length === 0 ? fallbackMs : (Math.min(...maxAges) - age) * 1000;
  return Math.max(0, Math.min(maxMs, lifetimeMs));
}

function headerText(value: string | readonly string[] | undefined): string {
  return typeof value === "string" ? value : (value ?? []).join(",");
}

/** The endpoints of a decision point, as paths on its origin. */
interface Endpoints {
  readonly evaluation: string;
  /** Undefined if it takes no batches. */
  readonly evaluations: string | undefined;
  /** Whether decisions may carry obligations, and requests must say which ones are supported. */
  readonly hasObligations: boolean;
}

type EndpointsOutcome = { readonly ok: true; readonly endpoints: Endpoints } | FailedCall;

/** Finds the endpoints of a decision point. */
export interface Discovery {
  find(call: Pick<AuthZenCall, "requestId" | "signal">): MaybePromise<EndpointsOutcome>;
  /** Notes that the decision point takes no batches after all. */
  disableBatches(): void;
}

interface DiscoveryDeps {
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
