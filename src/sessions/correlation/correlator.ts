import type { RequestMessage } from "../../protocol/message.ts";
import type { OpenResult, ScopeDescriptor, RequestDirection } from "./entry.ts";
import { PendingRequests } from "./ledger.ts";
import type { CorrelationOptions, CorrelatorDeps } from "./options.ts";
import { RequestScope } from "./scope.ts";
import type { CorrelationScope } from "./scope.ts";
import type { CorrelationStatistics } from "./statistics.ts";

/** Tracks every request until its outcome, in both directions and in any order (SC-047). */
export interface Correlator<Payload> {
  /** Opens a scope: a session, a process's life or a connection. */
  scope(place: ScopeDescriptor): CorrelationScope<Payload>;
  /**
   * Tracks a request that is a scope of its own, as every HTTP exchange of the modern era is. Cheaper than a scope:
   * the caller holds the entry, so nothing has to be found again by its id.
   */
  single(
    place: ScopeDescriptor,
    direction: RequestDirection,
    request: RequestMessage,
    payload: Payload,
  ): OpenResult<Payload>;
  statistics(): CorrelationStatistics;
  /** Judges requests by other bounds and times from now on; those that are open keep theirs. */
  configure(settings: CorrelationOptions): void;
  /** Takes no new requests of clients; resolves when all open exchanges but streams have ended. */
  drain(): Promise<void>;
  /** Ends everything at once and stops the timer. */
  close(): void;
}

/**
 * Makes a correlator. It never changes a message and never stops one, except that while terminating it refuses
 * requests beyond its bounds.
 *
 * @example
 * const scope = correlator.scope({ kind: "session", revision: "2025-11-25", realm: "files alice" });
 * const opening = scope.open("client-to-server", request, exchange);
 * if (!opening.ok) throw opening.error;
 * // …and when the answer is there:
 * const settlement = scope.settle("server-to-client", answer);
 * if (settlement.standing === "match") settlement.entry.elapsedMs; // how long it took
 */
export function createCorrelator<Payload>(options: CorrelatorDeps<Payload>): Correlator<Payload> {
  const ledger = new PendingRequests<Payload>(options);
  let scopes = 0;
  return {
    scope: (place) => new RequestScope(ledger, ++scopes, place),
    single: (place, direction, message, payload) =>
      ledger.open({ place, scope: undefined, direction, message, payload }),
    statistics: () => ledger.counters.snapshot(ledger.size),
    configure: (settings) => {
      ledger.configure(settings);
    },
    drain: async () => ledger.drain(),
    close: () => {
      ledger.shutdown();
    },
  };
}
