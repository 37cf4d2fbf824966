import { GatewayError } from "../../errors.ts";
import type { Clock, SetTimer } from "../../lib/clock.ts";
import type { Diagnostic } from "../../protocol/diagnostics.ts";
import type { CorrelationEntry, Entry, EntryInit } from "./entry.ts";
import type { MethodRules, TtlOptions } from "./method-rules.ts";

/** What a correlator is created with. */
export interface CorrelatorDeps<Payload> extends CorrelationOptions {
  readonly clock: Clock;
  readonly setTimer: SetTimer;
  /** At a limit a terminating correlator refuses; an observing one evicts the oldest entry instead. */
  readonly mode: "terminate" | "observe";
  /** Called with every diagnostic, and the entry it is about if there is one. */
  readonly onDiagnostic?: (diagnostic: Diagnostic, about: CorrelationEntry<Payload> | undefined) => void;
  /** Called once for every entry, when it has reached its final state. */
  readonly onFinished?: (entry: CorrelationEntry<Payload>) => void;
}

/** What may change while a correlator runs. */
export interface CorrelationOptions {
  readonly limits: CorrelationLimits;
  readonly ttl: TtlOptions;
}

/** How much correlation may remember (SC-051, SC-052, SC-056). */
export interface CorrelationLimits {
  /** Open requests in one scope. Lookups scan them: thousands are fine, millions are not. */
  readonly perScope: number;
  /** Open requests of one owner, such as a principal. */
  readonly perOwner: number;
  /** Open requests in total. */
  readonly total: number;
  /** Slots beyond both limits, only for handshake, ping and `tasks/cancel`. */
  readonly reserved: number;
  /** Characters of an id or progress token. */
  readonly idLength: number;
  readonly tombstones: number;
  readonly tombstoneMs: number;
  /** Operations that may wait for a client's input at once. */
  readonly operations: number;
  /** Retries that may join one operation. */
  readonly rounds: number;
  /** Seconds after which a refused client may try again. */
  readonly retryAfter: number;
}

export const defaultCorrelationLimits: CorrelationLimits = {
  perScope: 1000,
  perOwner: Infinity,
  total: 10_000,
  reserved: 16,
  idLength: 1024,
  tombstones: 10_000,
  tombstoneMs: 10 * 60_000,
  operations: 10_000,
  rounds: 10,
  retryAfter: 1,
};

/** A request that wants to be tracked. */
interface CapacityRequest<Payload> {
  readonly init: EntryInit<Payload>;
  readonly rules: MethodRules;
  /** Characters of the longer of its id and its progress token. */
  readonly idLength: number;
  /** Open requests of its owner. */
  readonly ownCount: number;
}

/** Whether there is room for a request; if a list is full, the entries in it. */
export type CapacityCheck<Payload> =
  | { readonly type: "room" }
  | { readonly type: "full"; readonly among: readonly Entry<Payload>[]; readonly error: GatewayError }
  | { readonly type: "refused"; readonly error: GatewayError };

const room = { type: "room" } as const;

/** Checks whether a request may be tracked (SC-051). */
export function checkCapacity<Payload>(
  { init, rules, idLength, ownCount }: CapacityRequest<Payload>,
  isClosed: boolean,
  open: readonly Entry<Payload>[],
  limits: CorrelationLimits,
): CapacityCheck<Payload> {
  const { scope } = init;
  if (scope?.isOver === true) {
    return { type: "refused", error: new GatewayError("cancelled", "the session or connection has ended") };
  }
  if (isClosed) {
    const details = { retryAfter: limits.retryAfter };
    return {
      type: "refused",
      error: new GatewayError("shutting_down", "no new requests are accepted", { details }),
    };
  }
  if (idLength > limits.idLength) {
    const text = `an id or progress token has ${idLength} characters, at most ${limits.idLength} are allowed`;
    const details = { current: idLength, limit: limits.idLength };
    return { type: "refused", error: new GatewayError("too_large", text, { details }) };
  }
  const extra = rules.isReserved ? limits.reserved : 0;
  if (scope !== undefined && scope.pending.length >= limits.perScope + extra) {
    return full(scope.pending, limits.perScope, limits.retryAfter);
  }
  if (ownCount >= limits.perOwner + extra) {
    const text = `too many open requests of this caller: ${ownCount}, at most ${limits.perOwner}`;
    const details = { current: ownCount, limit: limits.perOwner, retryAfter: limits.retryAfter };
    return { type: "refused", error: new GatewayError("rate_limited", text, { details }) };
  }
  return open.length >= limits.total + extra ? full(open, limits.total, limits.retryAfter) : room;
}

function full<Payload>(among: readonly Entry<Payload>[], limit: number, retryAfter: number): CapacityCheck<Payload> {
  const text = `too many open requests: ${among.length}, at most ${limit}`;
  const details = { current: among.length, limit, retryAfter };
  return { type: "full", among, error: new GatewayError("rate_limited", text, { details }) };
}
