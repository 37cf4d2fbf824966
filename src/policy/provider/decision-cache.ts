import { isThenable } from "../../core/interceptors/steps.ts";
import type { InspectedMessage } from "../../core/interceptors/inspected-message.ts";
import { createTtlCache } from "../../lib/ttl-cache.ts";
import type { PolicyProvider, Decision } from "./provider.ts";

/** What a cache of decisions is made of. */
export interface DecisionCacheOptions {
  /** Verdicts that are kept; the longest unused goes first. */
  readonly maxEntries: number;
  /** Monotonic milliseconds. */
  readonly now: () => number;
  /**
   * Everything that a verdict depends on, as text; undefined for questions whose verdict is not to be kept. Two
   * questions with the same text get the same verdict.
   */
  readonly keyOf: (subject: InspectedMessage) => string | undefined;
  /** How long a verdict may be kept, in milliseconds: the decision point's own terms; 0 for not at all. */
  readonly ttlOf: (verdict: Decision, subject: InspectedMessage) => number;
  /** Told of every look, to be counted. */
  readonly onLook?: (isHit: boolean) => void;
}

/** A provider that keeps verdicts, and how many it keeps. */
export interface CachingProvider extends PolicyProvider {
  readonly size: number;
  /** Forgets everything, as when a policy has changed. */
  clear(): void;
}

/**
 * A provider that is not asked again what it has answered, for as long as its verdict holds. Only verdicts on requests
 * are kept: answers differ. A verdict that leaves something for the answer's is given whole each time, and one that
 * says that no decision could be had is never kept.
 */
export function withDecisionCache(provider: PolicyProvider, options: DecisionCacheOptions): CachingProvider {
  const { maxEntries, now, keyOf, ttlOf, onLook } = options;
  const kept = createTtlCache<Decision>(maxEntries, now);

  function keep(key: string, subject: InspectedMessage, verdict: Decision): Decision {
    kept.set(key, verdict, isUndecided(verdict) ? 0 : ttlOf(verdict, subject));
    return verdict;
  }

  const filterList = provider.filterList?.bind(provider);
  return {
    name: provider.name,
    get size() {
      return kept.size;
    },
    clear: () => {
      kept.clear();
    },
    evaluateRequest: (subject, call) => {
      const key = keyOf(subject);
      if (key === undefined) return provider.evaluateRequest(subject, call);
      const known = kept.get(key);
      onLook?.(known !== undefined);
      if (known !== undefined) return known;
      const verdict = provider.evaluateRequest(subject, call);
      if (!isThenable(verdict)) return keep(key, subject, verdict);
      // Not shared with others who ask meanwhile: it would end with the first caller who goes away.
      return verdict.then((late) => keep(key, subject, late));
    },
    evaluateResponse: (subject, call) => provider.evaluateResponse(subject, call),
    ...(filterList === undefined ? {} : { filterList: (list, call) => filterList(list, call) }),
    close: () => provider.close?.(),
  };
}

function isUndecided(verdict: Decision): boolean {
  return verdict.effect === "deny" && (verdict.refusal.kind === "unavailable" || verdict.refusal.kind === "rate");
}
