import type { Clock, SetTimer } from "../../src/core/exchange.ts";

/** Time that stands still until a test moves it, with the timers that hang on it. */
export interface FakeTime {
  readonly clock: Clock;
  readonly setTimer: SetTimer;
  /** Timers that are set and neither fired nor cancelled. */
  readonly pending: () => number;
  /** Sets the wall clock ahead or back; nothing fires. */
  readonly jump: (milliseconds: number) => void;
  /** Moves time on, fires what is due in order, and lets the promises settle that this resolved. */
  readonly advance: (milliseconds: number) => Promise<void>;
}

interface Timer {
  readonly due: number;
  readonly callback: () => void;
}

/** Makes time that begins at 0 monotonic and at the given wall time. */
export function createFakeTime(wallStart = Date.UTC(2026, 0, 1)): FakeTime {
  let now = 0;
  let wallOffset = wallStart;
  const timers = new Set<Timer>();
  const nextDue = (until: number): Timer | undefined =>
    [...timers].filter(({ due }) => due <= until).toSorted((a, b) => a.due - b.due)[0];
  return {
    clock: { now: () => now, wall: () => wallOffset + now },
    setTimer: (milliseconds, callback) => {
      const timer = { due: now + milliseconds, callback };
      timers.add(timer);
      return () => {
        timers.delete(timer);
      };
    },
    pending: () => timers.size,
    jump: (milliseconds) => {
      wallOffset += milliseconds;
    },
    advance: async (milliseconds) => {
      const until = now + milliseconds;
      await settled();
      for (let timer = nextDue(until); timer !== undefined; timer = nextDue(until)) {
        timers.delete(timer);
        now = timer.due;
        timer.callback();
        await settled();
      }
      now = until;
    },
  };
}

/** Resolves when every promise that could go on without outside help has done so. */
export async function settled(): Promise<void> {
  const { promise, resolve } = Promise.withResolvers<void>();
  setImmediate(resolve);
  await promise;
}
