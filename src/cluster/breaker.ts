import { GatewayError } from "../errors.ts";

/** Stops calls to something that does not answer. */
export interface StoreBreaker {
  /** Throws while it is open. */
  check(): void;
  /** A command was answered. */
  succeeded(): void;
  /**
   * The lease was renewed. Only this ends an outage: a server that is out of memory or no longer the primary
   * answers reads and refuses writes.
   */
  renewed(): void;
  failed(reason: string, advice?: string): void;
}

const failuresToOpen = 3;
const openMs = 1000;

/**
 * Creates a breaker that opens for a second after three failures in a row; then one attempt decides. An outage is reported once,
 * and again when there is something else to do about it.
 */
export function createStoreBreaker(options: {
  readonly now: () => number;
  readonly onChange: (isUp: boolean, reason: string) => void;
}): StoreBreaker {
  let failures = 0;
  let openUntil = Number.NEGATIVE_INFINITY;
  let isUp = true;
  /** What was advised in this outage: its first reason is often a lost connection, and the next one says why. */
  const advised = new Set<string>();
  return {
    check: () => {
      if (options.now() < openUntil) throw new GatewayError("store_failed", "the shared store is unavailable");
    },
    succeeded: () => {
      failures = 0;
    },
    renewed: () => {
      failures = 0;
      if (isUp) return;
      isUp = true;
      advised.clear();
      options.onChange(true, "");
    },
    failed: (reason, advice) => {
      failures++;
      if (failures >= failuresToOpen) openUntil = options.now() + openMs;
      const isNews = isUp || (advice !== undefined && !advised.has(advice));
      if (advice !== undefined) advised.add(advice);
      isUp = false;
      if (isNews) options.onChange(false, advice === undefined ? reason : `${reason} (${advice})`);
    },
  };
}
