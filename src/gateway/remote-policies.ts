import type { RouteConfig } from "../config/config.ts";
import type { Clock, SetTimer } from "../exchange.ts";
import { createAuthZenProvider } from "../policy/authzen/provider.ts";
import type { OnFailOpen } from "../policy/fail-open.ts";
import type { PolicyProvider } from "../policy/provider.ts";
import type { Logger } from "../telemetry/log.ts";
import type { Metrics } from "../telemetry/metrics.ts";
import { readTls } from "./pem.ts";
import { openPingAuthorize } from "./ping-authorize.ts";

/** What decision points elsewhere need of the gateway. */
export interface RemotePolicyDeps {
  readonly clock: Clock;
  readonly setTimer: SetTimer;
  readonly log: Logger;
  readonly metrics: Metrics;
  readonly onFailOpen: OnFailOpen;
  readonly onRetry: () => void;
}

/** The provider of a route whose decisions are made elsewhere; undefined where they are made here. */
export function openRemotePolicy(
  { name: route, policy }: RouteConfig,
  deps: Omit<RemotePolicyDeps, "onRetry">,
): PolicyProvider | undefined {
  const { clock, setTimer, metrics } = deps;
  const { policyRetries, policyBreaker, policyCache } = metrics.metrics;
  const onRetry = (): void => policyRetries.labels({ route }).inc();
  if (policy?.pingAuthorize !== undefined)
    return openPingAuthorize(route, policy.pingAuthorize, policy.failOpen, { ...deps, onRetry });
  if (policy?.authzen === undefined) return undefined;
  const { authzen, refusals } = policy;
  const breaker = policyBreaker.labels({ route });
  const hits = policyCache.labels({ route, outcome: "hit" });
  const misses = policyCache.labels({ route, outcome: "miss" });
  return createAuthZenProvider(authzen, {
    clock,
    setTimer,
    tls: readTls(authzen.tls),
    // The binding has one code for every denial, and an unknown name would be answered with another.
    denied: refusals === "coaz" ? "forbidden" : "unknown",
    onRetry,
    onBreaker: (isOpen) => breaker.set(isOpen ? 1 : 0),
    onCacheLook: (isHit) => (isHit ? hits : misses).inc(),
  });
}
