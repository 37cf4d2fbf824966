import { GatewayError } from "../../errors.ts";
import type { Entry, EntryInit } from "./entry.ts";
import type { CorrelationLimits } from "./options.ts";
import type { LinkList } from "./link-list.ts";
import type { MethodRules } from "./method-plan.ts";

/** What is asked about a request that wants to be tracked. */
interface CapacityRequest<Payload> {
  readonly facts: EntryInit<Payload>;
  readonly plan: MethodRules;
  /** Characters of the longer of its id and its progress token. */
  readonly idLength: number;
}

/** What is to be done with an applicant; at a bound the oldest entry of the full list is at hand. */
export type CapacityCheck<Payload> =
  | { readonly type: "room" }
  | { readonly type: "full"; readonly oldest: Entry<Payload> | undefined; readonly error: GatewayError }
  | { readonly type: "refused"; readonly error: GatewayError };

/** Whether requests are taken at all. */
export type CorrelatorPhase = "running" | "draining" | "closed";

const room = { type: "room" } as const;

/** Judges whether a request may be tracked (SC-051). */
export function checkCapacity<Payload>(
  { facts, plan, idLength }: CapacityRequest<Payload>,
  phase: CorrelatorPhase,
  open: LinkList<Entry<Payload>>,
  limits: CorrelationLimits,
): CapacityCheck<Payload> {
  const { scope, direction } = facts;
  if (scope?.isOver === true) {
    return { type: "refused", error: new GatewayError("cancelled", "the session or connection has ended") };
  }
  // A server may still ask what it needs to finish the calls that are drained.
  if (phase === "closed" || (phase === "draining" && direction === "client-to-server")) {
    const details = { retryAfter: limits.retryAfter };
    return {
      type: "refused",
      error: new GatewayError("shutting_down", "no new requests are taken", { details }),
    };
  }
  if (idLength > limits.idLength) {
    const text = `an id or progress token has ${idLength} characters, at most ${limits.idLength}`;
    const details = { current: idLength, limit: limits.idLength };
    return { type: "refused", error: new GatewayError("too_large", text, { details }) };
  }
  const extra = plan.isReserved ? limits.reserved : 0;
  if (scope !== undefined && scope.pending.size >= limits.perScope + extra) {
    return full(scope.pending, limits.perScope, limits.retryAfter);
  }
  return open.size >= limits.total + extra ? full(open, limits.total, limits.retryAfter) : room;
}

function full<Payload>(
  list: LinkList<Entry<Payload>>,
  limit: number,
  retryAfter: number,
): CapacityCheck<Payload> {
  const text = `too many open requests: ${list.size}, at most ${limit}`;
  const details = { current: list.size, limit, retryAfter };
  const error = new GatewayError("rate_limited", text, { details });
  return { type: "full", oldest: list.first?.item, error };
}
