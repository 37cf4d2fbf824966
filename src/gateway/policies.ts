import type { RouteConfig } from "../config/config.ts";
import { GatewayError } from "../errors.ts";
import type { Clock, SetTimer } from "../exchange.ts";
import type { Interceptor } from "../pipeline.ts";
import { createCelProvider } from "../policy/cel/provider.ts";
import { withDeadline } from "../policy/deadline.ts";
import type { DecisionListener } from "../policy/decision.ts";
import { createEnforcement } from "../policy/enforce.ts";
import { withFailOpen } from "../policy/fail-open.ts";
import type { PolicyProvider } from "../policy/provider.ts";
import type { ParseLimits } from "../protocol/message.ts";
import type { Logger } from "../telemetry/log.ts";
import type { Metrics } from "../telemetry/metrics.ts";
import type { GatewayAudit } from "./audit.ts";
import { createDecisionLog } from "./decision-log.ts";
import { openRemotePolicy } from "./remote-policies.ts";

/** What policies need of the gateway around them. */
export interface PolicyDeps {
  readonly clock: Clock;
  readonly setTimer: SetTimer;
  readonly log: Logger;
  readonly metrics: Metrics;
  readonly limits: ParseLimits;
  readonly newDecisionId: () => string;
  /** Told of every decision beside log and metrics. */
  readonly onDecision?: DecisionListener | undefined;
  /** Where decisions are written down. */
  readonly audit: Pick<GatewayAudit, "listener" | "guard">;
  /** Providers that were handed in, by the name of their route; they take the place of configured ones. */
  readonly providers: Readonly<Record<string, PolicyProvider>>;
}

/** The policy of a route as it is enforced. */
export interface OpenPolicy {
  readonly step: Interceptor;
  close(): Promise<void>;
}

/** How decisions are carried out where the configuration says nothing. */
const policyDefaults = {
  shadow: false,
  refusals: "default",
  denialStatus: "in-band",
  timeout: 5000,
  failOpen: false,
} as const;

/** Opens the policy of a route; undefined where there is none, and everything is allowed. */
export function openPolicy(route: RouteConfig, deps: PolicyDeps): OpenPolicy | undefined {
  const { log, metrics, limits, newDecisionId, onDecision, audit } = deps;
  const { name, policy: config } = route;
  const decided = providerOf(route, deps);
  if (decided === undefined) return undefined;
  if (route.mode === "observe") {
    const text = `route ${name} only watches and passes everything on, so its policy cannot be enforced`;
    throw new GatewayError("config_invalid", text);
  }
  const provider = audit.guard(decided);
  const { shadow, refusals, denialStatus } = config ?? policyDefaults;
  const mode = shadow ? "shadow" : "enforce";
  const logged = createDecisionLog(name, mode, metrics, log);
  return {
    step: createEnforcement({
      provider,
      mode,
      refusals: { profile: refusals, denialStatus },
      newDecisionId,
      limits,
      onDecision: (event) => {
        logged(event);
        audit.listener(event);
        onDecision?.(event);
      },
    }),
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
  const onFailOpen = (problem: string): void => {
    policyFailOpen.labels({ route: name }).inc();
    log.warn({ route: name, problem }, "a message passed without a decision, as configured");
  };
  const remote = deps.providers[name] ?? openRemotePolicy(route, { ...deps, onFailOpen });
  // Rules of our own decide at once: there is nothing to wait for, and nothing that could be unavailable.
  if (remote === undefined) return policy && createCelProvider(policy, { clock: deps.clock });
  const timeouts = policyTimeouts.labels({ route: name });
  const timed = withDeadline(remote, { timeoutMs: timeout, setTimer, onTimeout: () => timeouts.inc() });
  return failOpen ? withFailOpen(timed, onFailOpen) : timed;
}
