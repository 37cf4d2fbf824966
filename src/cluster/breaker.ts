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
  failed(reason: string): void;
}

const failuresToOpen = 3;
const openMs = 1000;

/** Creates a breaker that opens for a second after three failures in a row; then one attempt decides. */
export function createStoreBreaker(options: {
  readonly now: () => number;
  readonly onChange: (isUp: boolean, reason: string) => void;
}): StoreBreaker {
  let failures = 0;
  let openUntil = Number.NEGATIVE_INFINITY;
  let isUp = true;
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
      options.onChange(true, "");
    },
    failed: (reason) => {
      failures++;
      if (failures >= failuresToOpen) openUntil = options.now() + openMs;
      if (!isUp) return;
      isUp = false;
      options.onChange(false, reason);
    },
  };
}
