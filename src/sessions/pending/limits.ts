import type { Clock, SetTimer } from "../../core/exchange.ts";
import type { Diagnostic } from "../../protocol/message.ts";
import type { CorrelationEntry, Entry, EntryInit } from "./entry.ts";
import type { MethodRules, TtlOptions } from "./method-rules.ts";
import { GatewayError } from "../../errors.ts";
import type { LinkList } from "./link-list.ts";

/** What a correlator is made with. */
export interface CorrelatorDeps<Payload> extends CorrelationOptions {
  readonly clock: Clock;
  readonly setTimer: SetTimer;
  /** Terminating refuses at a bound; observing gives up the oldest entry instead. */
  readonly mode: "terminate" | "observe";
  /** Told of every finding, with the entry it is about where there is one. */
  readonly onDiagnostic?: (diagnostic: Diagnostic, about: CorrelationEntry<Payload> | undefined) => void;
  /** Told of every entry once, when it has reached its final state. */
  readonly onFinished?: (entry: CorrelationEntry<Payload>) => void;
}

/** What of a correlator may change while it runs. */
export interface CorrelationOptions {
  readonly limits: CorrelationLimits;
  readonly ttl: TtlOptions;
}

/** How much correlation may remember (SC-051, SC-052, SC-056). */
export interface CorrelationLimits {
  /** Open exchanges in one scope. */
  readonly perScope: number;
  /** Open exchanges in all. */
  readonly total: number;
  /** Slots beyond both bounds that only handshake, ping and `tasks/cancel` may take. */
  readonly reserved: number;
  /** Characters of an id or progress token. */
  readonly idLength: number;
  readonly tombstones: number;
  readonly tombstoneMs: number;
  /** Operations that may wait for a client's input at once. */
  readonly operations: number;
  /** Retries that may join one operation. */
  readonly rounds: number;
  /** Seconds after which one who was turned away may come back. */
  readonly retryAfter: number;
}

export const defaultCorrelationLimits: CorrelationLimits = {
  perScope: 1000,
  total: 10_000,
  reserved: 16,
  idLength: 1024,
  tombstones: 10_000,
  tombstoneMs: 10 * 60_000,
  operations: 10_000,
  rounds: 10,
  retryAfter: 1,
};

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

function full<Payload>(list: LinkList<Entry<Payload>>, limit: number, retryAfter: number): CapacityCheck<Payload> {
  const text = `too many open requests: ${list.size}, at most ${limit}`;
  const details = { current: list.size, limit, retryAfter };
  const error = new GatewayError("rate_limited", text, { details });
  return { type: "full", oldest: list.first?.item, error };
}
