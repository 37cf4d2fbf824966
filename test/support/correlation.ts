import type { Clock, SetTimer } from "../../src/core/exchange.ts";
import type { ErrorMessage, RequestId } from "../../src/protocol/message.ts";
import { type Correlator, createCorrelator } from "../../src/sessions/pending/correlator.ts";
import type { CorrelationEntry, OpenResult } from "../../src/sessions/pending/entry.ts";
import type { TtlOptions } from "../../src/sessions/pending/method-rules.ts";
import { type CorrelationLimits, defaultCorrelationLimits } from "../../src/sessions/pending/limits.ts";
import { messageOf } from "./messages.ts";

/** The timeouts of a gateway that configures none. */
export const defaultTtl: TtlOptions = {
  quickMs: 30_000,
  toolMs: 5 * 60_000,
  humanMs: 30 * 60_000,
  hardMs: 60 * 60_000,
  tools: {},
};

/** Time that jumps: timers fire once after the jump, as on a machine that slept, and wall time goes its own way. */
export interface JumpingTime {
  readonly clock: Clock;
  readonly setTimer: SetTimer;
  readonly jump: (milliseconds: number) => void;
  readonly setWall: (milliseconds: number) => void;
  /** Timers that are set. */
  readonly timers: () => number;
}

export function createJumpingTime(): JumpingTime {
  let now = 1000;
  let wall = Date.UTC(2026, 0, 1);
  const timers = new Set<{ readonly due: number; readonly callback: () => void }>();
  return {
    clock: { now: () => now, wall: () => wall },
    setTimer: (milliseconds, callback) => {
      const timer = { due: now + milliseconds, callback };
      timers.add(timer);
      return () => {
        timers.delete(timer);
      };
    },
    jump: (milliseconds) => {
      now += milliseconds;
      wall += milliseconds;
      for (const timer of timers) {
        if (timer.due > now) continue;
        timers.delete(timer);
        timer.callback();
      }
    },
    setWall: (milliseconds) => {
      wall = milliseconds;
    },
    timers: () => timers.size,
  };
}

/** A correlator with its time, and everything that it reported. Payloads are names that the test gives. */
export interface CorrelationBench {
  readonly correlator: Correlator<string>;
  readonly time: JumpingTime;
  /** Codes of diagnostics, each with the payload of the entry it is about. */
  readonly diagnostics: string[];
  /** Final states, each with the payload of its entry. */
  readonly finished: string[];
}

export function createCorrelationBench(
  options: {
    readonly mode?: "terminate" | "observe";
    readonly limits?: Partial<CorrelationLimits>;
    readonly ttl?: Partial<TtlOptions>;
    readonly onFinished?: (entry: CorrelationEntry<string>) => void;
  } = {},
): CorrelationBench {
  const time = createJumpingTime();
  const diagnostics: string[] = [];
  const finished: string[] = [];
  const correlator = createCorrelator<string>({
    ...time,
    mode: options.mode ?? "terminate",
    limits: { ...defaultCorrelationLimits, ...options.limits },
    ttl: { ...defaultTtl, ...options.ttl },
    onDiagnostic: ({ code }, about) => {
      diagnostics.push(about === undefined ? code : `${code} ${about.payload}`);
    },
    onFinished: (entry) => {
      finished.push(`${entry.state} ${entry.payload}`);
      options.onFinished?.(entry);
    },
  });
  return { correlator, time, diagnostics, finished };
}

/** The entry of an opening that the test knows to have succeeded. */
export function openedEntry(opening: OpenResult<string>): CorrelationEntry<string> {
  if (!opening.ok) throw opening.error;
  return opening.entry;
}

/** Parses an error answer. */
export function errorOf(id?: RequestId | string | number, code = -32603): ErrorMessage {
  const message = messageOf({
    jsonrpc: "2.0",
    ...(id === undefined ? {} : { id }),
    error: { code, message: "no" },
  });
  if (message.kind !== "error") throw new Error(`not an error but a ${message.kind}`);
  return message;
}
