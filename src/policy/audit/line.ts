import type { DecisionEvent } from "../decision.ts";

/**
 * A decision as one line of JSON. It says who, what and why; of the message itself it has the method and the name that
 * it is about, never its arguments or its result.
 */
export function formatAuditLine(event: DecisionEvent, wallTime: number): string {
  const { exchange, refusal: denial, explanation, list, target } = event;
  const { provider, rule, read, durationMs, shadow, notes } = explanation;
  const line = JSON.stringify({
    time: new Date(wallTime).toISOString(),
    decision: event.id,
    exchange: exchange.id,
    route: exchange.route,
    principal: exchange.principal.id,
    principalKind: exchange.principal.kind,
    session: exchange.session?.id,
    revision: exchange.revision,
    direction: event.direction,
    phase: event.phase,
    method: event.method,
    target,
    effect: event.effect,
    enforced: event.isEnforced,
    refusal: denial && {
      kind: denial.kind,
      code: denial.code,
      reason: denial.reason,
      scopes: denial.scopes,
      retryAfter: denial.retryAfter,
    },
    list,
    provider,
    rule,
    read,
    durationMs: Math.round(durationMs * 1000) / 1000,
    shadow,
    notes,
    failure: causeText(event.cause),
  });
  return `${line}\n`;
}

function causeText(cause: unknown): string | undefined {
  if (cause === undefined) return undefined;
  return cause instanceof Error ? `${cause.name}: ${cause.message}` : typeof cause;
}
