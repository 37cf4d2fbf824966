import type { Clock, SetTimer } from "../../exchange.ts";
import type { Diagnostic } from "../../protocol/message.ts";
import type { CorrelationEntry } from "./entry.ts";
import type { TtlOptions } from "./method-plan.ts";

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
