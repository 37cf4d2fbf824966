import type { RouteConfig, RoutePolicy } from "../../config/config.ts";
import { type Clock, configuredRoute, type SetTimer } from "../../core/exchange.ts";
import type { Interceptor } from "../../core/pipeline.ts";
import { GatewayError } from "../../errors.ts";
import { readTls } from "../../lib/keys/pem.ts";
import type { CreateBuckets } from "../../lib/token-bucket.ts";
import { createAuthZenProvider } from "../../policy/authzen/provider.ts";
import { createCelProvider } from "../../policy/cel/provider.ts";
import { createEnforcement, createListFilter } from "../../policy/enforce.ts";
import type { DecisionEvent, DecisionListener } from "../../policy/provider/decision-event.ts";
import { type OnFailOpen, withDeadline, withFailOpen } from "../../policy/provider/fail-open.ts";
import type { PolicyProvider } from "../../policy/provider/provider.ts";
import type { SidebandTelemetry } from "../../policy/sideband/contract.ts";
import { createSidebandProvider } from "../../policy/sideband/provider.ts";
import { toPlainFields } from "../../policy/sideband/telemetry.ts";
import type { ParseLimits } from "../../protocol/message.ts";
import type { LogFields, Logger } from "../../telemetry/log.ts";
import { routeSidebandMetrics } from "../../telemetry/metric-names.ts";
import type { Metrics } from "../../telemetry/metrics.ts";
import type { GatewayAudit } from "./audit.ts";

/** What policies need of the gateway. */
export interface PolicyDeps {
  readonly clock: Clock;
  readonly setTimer: SetTimer;
  readonly createBuckets: CreateBuckets;
  readonly log: Logger;
  readonly metrics: Metrics;
  readonly limits: ParseLimits;
  readonly newDecisionId: () => string;
  /** Called with every decision, besides log and metrics. */
  readonly onDecision?: DecisionListener | undefined;
  readonly audit: Pick<GatewayAudit, "listener" | "guard">;
  /** Providers of the caller by route name; they replace configured ones. */
  readonly providers: Readonly<Record<string, PolicyProvider>>;
}

/** The enforced policy of a route. */
export interface OpenPolicy {
  readonly step: Interceptor;
  /** The part of a list that a caller may see, for lists that no client requested. */
  readonly filterList: ReturnType<typeof createListFilter>;
  close(): Promise<void>;
}

/** Settings for custom providers, which have no configuration. */
const policyDefaults = {
  shadow: false,
  refusals: "default",
  refusalStatus: "in-band",
  timeout: 5000,
  failOpen: false,
} as const;

/** Opens the policy of a route; undefined where none is configured and everything is allowed. */
export function openPolicy(route: RouteConfig, deps: PolicyDeps): OpenPolicy | undefined {
  const { log, metrics, limits, newDecisionId, onDecision, audit } = deps;
  const { name, policy: config } = route;
  const decided = providerOf(route, deps);
  if (decided === undefined) return undefined;
  if (route.mode === "observe") {
    const text = `route ${name} is in observe mode, so its policy cannot be enforced`;
    throw new GatewayError("config_invalid", text);
  }
  const provider = audit.guard(decided);
  const { shadow, refusals, refusalStatus } = config ?? policyDefaults;
  const mode = shadow ? "shadow" : "enforce";
  const logged = createDecisionLog(name, mode, metrics, log);
  return {
    step: createEnforcement({
      provider,
      mode,
      refusals: { profile: refusals, refusalStatus },
      newDecisionId,
      limits,
      onDecision: (event) => {
        logged(event);
        audit.listener(event);
        onDecision?.(event);
      },
    }),
    filterList: createListFilter({ provider, mode, newDecisionId, limits }),
    close: async () => {
      await provider.close?.();
    },
  };
}

function providerOf(route: RouteConfig, deps: PolicyDeps): PolicyProvider | undefined {
  const { name, policy } = route;
  const { log, setTimer } = deps;
  const { timeout, failOpen } = policy ?? policyDefaults;
  const { policyTimeouts, policyFailOpen } = deps.metrics.metrics;
  const onFailOpen: OnFailOpen = (problem, exchange) => {
    policyFailOpen.labels({ route: name }).inc();
    log.warn(
      { exchange: exchange.id, route: name, problem },
      "policy failed open: a message passed without a decision",
    );
  };
  const remote =
    deps.providers[name] ?? deps.providers[configuredRoute(name)] ?? openRemotePolicy(route, { ...deps, onFailOpen });
  // Our own rules are always available.
  const createBuckets: CreateBuckets = (rate, of) => deps.createBuckets(rate, `${configuredRoute(name)} ${of}`);
  if (remote === undefined) return policy && createCelProvider(policy, { clock: deps.clock, createBuckets });
  const timeouts = policyTimeouts.labels({ route: name });
  const timed = withDeadline(remote, { timeoutMs: timeout, setTimer, onTimeout: () => timeouts.inc() });
  return failOpen ? withFailOpen(timed, onFailOpen) : timed;
}

/** Opens the PingAuthorize provider; its certificates are read now. */
function openPingAuthorize(
  route: string,
  config: NonNullable<RoutePolicy["pingAuthorize"]>,
  failOpen: boolean,
  { clock, setTimer, log, metrics, onFailOpen, onRetry }: RemotePolicyDeps,
): PolicyProvider {
  return createSidebandProvider(config, {
    clock,
    setTimer,
    failOpen,
    onFailOpen,
    onRetry,
    tls: readTls(config.tls),
    telemetry: telemetryOf(route, metrics),
    log: (entry) => {
      if (log.isLevelEnabled(entry.level)) log[entry.level]({ route, ...toPlainFields(entry) }, entry.msg);
    },
  });
}

/** The engine's metrics in the gateway's registry, with the route as an additional label. */
function telemetryOf(route: string, { metrics }: Metrics): SidebandTelemetry {
  const keys = Object.keys(routeSidebandMetrics) as (keyof typeof routeSidebandMetrics)[];
  const byName = new Map(
    keys.map((key) => [
      routeSidebandMetrics[key].name,
      // The engine gives each name the labels of its definition, and we add the route.
      metrics[key] as unknown as { labels(values: Readonly<Record<string, string>>): AnyChild },
    ]),
  );
  const child = (name: string, labels: Readonly<Record<string, string>>): AnyChild | undefined =>
    byName.get(name)?.labels({ route, ...labels });
  return {
    count: (name, labels) => child(name, labels)?.inc?.(),
    observe: (name, value, labels) => child(name, labels)?.observe?.(value),
    gauge: (name, value, labels) => child(name, labels)?.set?.(value),
    startSpan: () => ({ end: () => {} }),
  };
}

interface AnyChild {
  readonly inc?: () => void;
  readonly observe?: (value: number) => void;
  readonly set?: (value: number) => void;
}

/** What remote decision points need from the gateway. */
export interface RemotePolicyDeps {
  readonly clock: Clock;
  readonly setTimer: SetTimer;
  readonly log: Logger;
  readonly metrics: Metrics;
  readonly onFailOpen: OnFailOpen;
  readonly onRetry: () => void;
}

/** The provider of a route with a remote decision point; undefined where rules decide here. */
function openRemotePolicy(
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
    // The binding has one code for every denial, but an unknown name would be answered with another.
    denied: refusals === "coaz" ? "forbidden" : "unknown",
    onRetry,
    onBreaker: (isOpen) => breaker.set(isOpen ? 1 : 0),
    onCacheLookup: (isHit) => (isHit ? hits : misses).inc(),
  });
}

/** Whether a route enforces decisions or only logs them. */
type PolicyMode = "enforce" | "shadow";

/**
 * Creates the listener that counts and logs the decisions of a route: refusals at `info`, provider failures at `warn`,
 * everything else at `debug`. The line has the decision id that the client was given.
 */
export function createDecisionLog(
  route: string,
  mode: PolicyMode,
  { metrics }: Metrics,
  log: Logger,
): DecisionListener {
  const duration = metrics.policyDuration.labels({ route });
  const counter = (phase: DecisionEvent["phase"], effect: DecisionEvent["effect"]) =>
    metrics.policyDecisions.labels({ route, phase, effect, mode });
  const countersOf = (phase: DecisionEvent["phase"]) => ({
    allow: counter(phase, "allow"),
    change: counter(phase, "change"),
    filter: counter(phase, "filter"),
    deny: counter(phase, "deny"),
  });
  // Nested objects, so that no key is built per decision.
  const counters = {
    request: countersOf("request"),
    response: countersOf("response"),
    list: countersOf("list"),
  };

  return (event) => {
    counters[event.phase][event.effect].inc();
    duration.observe(event.explanation.durationMs / 1000);
    const level = event.cause !== undefined ? "warn" : event.effect === "deny" ? "info" : "debug";
    if (log.isLevelEnabled(level)) log[level](fieldsOf(event), wordsOf(event));
  };
}

function wordsOf({ effect, isEnforced }: DecisionEvent): string {
  if (effect !== "deny") return "policy decision";
  return isEnforced ? "refused by policy" : "would be refused by policy";
}

function fieldsOf(event: DecisionEvent): LogFields {
  const { exchange, explanation, refusal, list, target, cause } = event;
  const { provider, rule, read, durationMs, shadow, notes } = explanation;
  return {
    exchange: exchange.id,
    decision: event.id,
    route: exchange.route,
    principal: exchange.principal.id,
    session: exchange.session?.label,
    direction: event.direction === "client-to-server" ? "c2s" : "s2c",
    phase: event.phase,
    method: event.method,
    target: target?.name,
    effect: event.effect,
    enforced: event.isEnforced,
    provider,
    rule,
    code: refusal?.code,
    kind: refusal?.kind,
    reason: refusal?.reason,
    hidden: list?.hidden,
    listed: list?.total,
    read: read.join(" "),
    ms: Math.round(durationMs * 1000) / 1000,
    ...(shadow === undefined ? {} : { shadow: shadow.map((one) => `${one.rule} ${one.effect}`).join(", ") }),
    ...(notes === undefined ? {} : { notes: notes.join("; ") }),
    ...(cause instanceof Error ? { cause: cause.message } : {}),
  };
}
