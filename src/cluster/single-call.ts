import { GatewayError } from "../errors.ts";
import type { SetTimer } from "../lib/clock.ts";
import { settlesWithin } from "../lib/timeout.ts";

/** Calls that are made one after the other to something that may hang. */
export interface SingleCall {
  /**
   * What became of a call that took too long: whether it succeeded after all; undefined if there was none. Rejects while that
   * is not known.
   */
  outcome(): Promise<boolean | undefined>;
  /** Makes a call. Rejects if it takes too long, although it may still be carried out. */
  run(call: () => Promise<void>): Promise<void>;
}

/**
 * Limits how long each call may take. What is sent again while nothing answers would pile up, and later be carried out twice,
 * so callers ask for the outcome first.
 */
export function createSingleCall(options: {
  /** Read each time. */
  readonly limitMs: () => number;
  readonly setTimer: SetTimer;
  /** The message of the error if a call takes too long. */
  readonly problem: string;
}): SingleCall {
  const { limitMs, setTimer, problem } = options;
  let late: Promise<boolean> | undefined;

  async function wait(call: Promise<boolean>): Promise<boolean> {
    if (!(await settlesWithin(call, limitMs(), setTimer))) throw new GatewayError("store_failed", problem);
    late = undefined;
    return call;
  }

  return {
    outcome: async () => (late === undefined ? undefined : wait(late)),
    run: async (call) => {
      const sent = call();
      late = sent.then(
        () => true,
        () => false,
      );
      await wait(late);
      await sent;
    },
  };
}
