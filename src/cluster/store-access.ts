import { GatewayError } from "../errors.ts";
import type { Clock, SetTimer } from "../lib/clock.ts";
import { settlesWithin } from "../lib/timeout.ts";
import { createStoreBreaker } from "./breaker.ts";
import type { SharedStoreEvents } from "./shared-store.ts";
import { problemText, storeProblem } from "./store-advice.ts";

/** A gateway that has not renewed its lease for this long has ended. */
export const leaseMs = 15_000;
/** How often the lease is renewed and the list of peers is read. */
const pollMs = 1000;
/** How long a connection may take. */
export const connectMs = 2000;
/** How long a start waits for the first answer; loading the client takes a part of it. */
const readyMs = 10_000;

/** How commands are sent to a store, independent of its kind. */
export interface StoreAccess {
  /** Runs a command; fails immediately while the store is unavailable, and when the answer takes too long. */
  run<Result>(command: () => Promise<Result>): Promise<Result>;
  /** Waits for something that the store needs; its failure counts as the store's failure. */
  report<Result>(work: Promise<Result>): Promise<Result>;
  /** The connection is lost. */
  readonly lost: (reason: string) => void;
  /** Renews the lease once the store is open, and every second from then on. */
  keepRenewing(opened: Promise<unknown>, renew: () => Promise<void>): void;
  /** Resolves when the lease has been renewed for the first time; rejects if the store cannot be opened or reached. */
  readonly ready: () => Promise<void>;
  close(): void;
}

/** Creates the access to a store. */
export function createStoreAccess(deps: {
  readonly clock: Clock;
  readonly setTimer: SetTimer;
  /** Undefined if commands have limits of their own. */
  readonly commandMs: number | undefined;
  readonly events: Pick<SharedStoreEvents, "changed">;
}): StoreAccess {
  const { clock, setTimer, commandMs, events } = deps;
  const breaker = createStoreBreaker({ now: clock.now, onChange: (isUp, reason) => events.changed(isUp, reason) });
  const answered = Promise.withResolvers<void>();
  answered.promise.catch(() => {});
  /** Why the store failed last. */
  let lastReason = "";
  /** Returns what the error says. */
  const failed = (error: unknown): string => {
    const problem = storeProblem(error);
    breaker.failed(problem.reason, problem.advice);
    return (lastReason = problemText(problem));
  };
  let stopTimer: (() => void) | undefined;
  let isClosed = false;
  const renewed = (): void => {
    breaker.renewed();
    answered.resolve();
  };

  /** Client timeouts stop when a command has been written; a server may accept it and never answer. */
  async function within<Result>(milliseconds: number, result: Promise<Result>): Promise<Result> {
    const late = Promise.withResolvers<never>();
    const stop = setTimer(milliseconds, () => {
      // If this process was busy that long, an answer may have arrived and not been read yet.
      setImmediate(() => {
        late.reject(new Error(`no answer within ${milliseconds} ms`));
      });
    });
    try {
      return await Promise.race([result, late.promise]);
    } finally {
      stop();
    }
  }

  function renewLater(renew: () => Promise<void>): void {
    if (isClosed) return;
    stopTimer = setTimer(pollMs, () => {
      void renew()
        .then(renewed)
        // While the store is unavailable, the last known peers are used.
        .catch(() => {})
        .finally(() => {
          renewLater(renew);
        });
    });
  }

  return {
    run: async (command) => {
      breaker.check();
      try {
        const result = await (commandMs === undefined ? command() : within(commandMs, command()));
        breaker.succeeded();
        return result;
      } catch (error) {
        throw new GatewayError("store_failed", `the shared store is unavailable: ${failed(error)}`, { cause: error });
      }
    },
    report: async (work) => {
      try {
        return await work;
      } catch (error) {
        failed(error);
        throw error;
      }
    },
    lost: (reason) => {
      failed(reason);
    },
    keepRenewing: (opened, renew) => {
      // Most causes of a failed first attempt are temporary; a missing package is not.
      opened
        .then(async () => renew().then(renewed), answered.reject)
        .catch(() => {})
        .finally(() => {
          renewLater(renew);
        });
    },
    ready: async () => {
      if (await settlesWithin(answered.promise, readyMs, setTimer)) return;
      const why = lastReason === "" ? "" : `: ${lastReason}`;
      throw new GatewayError("store_failed", `the shared store did not answer within ${readyMs / 1000} s${why}`);
    },
    close: () => {
      isClosed = true;
      stopTimer?.();
    },
  };
}
