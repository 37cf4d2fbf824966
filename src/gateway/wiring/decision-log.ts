import type { DecisionEvent, DecisionListener } from "../../policy/provider/decision-event.ts";
import type { Metrics } from "../../telemetry/metrics.ts";
import type { LogFields, Logger } from "../../telemetry/log.ts";

/** Whether a route enforces decisions or only logs them. */
export type PolicyMode = "enforce" | "shadow";

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
    decision: event.id,
    exchange: exchange.id,
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
