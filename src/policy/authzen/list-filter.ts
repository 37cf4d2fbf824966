import { GatewayError } from "../../errors.ts";
import type { MaybePromise } from "../../lib/is-promise.ts";
import { createTtlCache } from "../../lib/ttl-cache.ts";
import { explain, type Explanation, type ListDecision, type ListPage, type PolicyCall } from "../provider/provider.ts";
import { type IdentityOptions, listRequest } from "./default-mappings.ts";
import type { Evaluate } from "./evaluate.ts";
import { type AuthZenDecision, formatRequest } from "./evaluation-api.ts";
import type { DeclaredMappings } from "./mapping.ts";
import { readObligations } from "./obligations.ts";
import type { FailedCall } from "./pdp-call.ts";

export interface ListFilterOptions {
  readonly provider: string;
  readonly evaluate: Evaluate;
  readonly identity: IdentityOptions;
  /** Learns the mappings that listed tools declare. */
  readonly declared: DeclaredMappings | undefined;
  /** Show everything, and only learn from lists. */
  readonly showsAll: boolean;
  readonly maxBatch: number;
  readonly cacheEntries: number;
  readonly now: () => number;
  readonly onCacheLookup?: ((isHit: boolean) => void) | undefined;
}

const read: readonly string[] = ["principal", "mcp", "entry.name"];

/**
 * Creates the function that filters a page to the entries that the caller may use, in one batch. Mappings that tools
 * declare are about arguments, so they are not used here; the call itself is evaluated with them.
 */
export function createAuthZenListFilter(
  options: ListFilterOptions,
): (list: ListPage, call: PolicyCall) => MaybePromise<ListDecision> {
  const { provider, evaluate, identity, declared, showsAll, maxBatch, cacheEntries, now, onCacheLookup } = options;
  const cache = createTtlCache<readonly boolean[]>(cacheEntries, now);

  async function evaluateNames(
    { subject, kind }: ListPage,
    names: readonly string[],
    { signal }: PolicyCall,
  ): Promise<readonly boolean[] | FailedCall> {
    const { exchange } = subject;
    const request = listRequest(exchange, kind, names, identity);
    const key = formatRequest(request);
    const cached = cache.get(key);
    onCacheLookup?.(cached !== undefined);
    if (cached !== undefined) return cached;
    const evaluation = await evaluate(request, { requestId: exchange.id, signal });
    if (!evaluation.ok) return evaluation;
    const visible = evaluation.decisions.map((decision) => isVisible(decision, exchange.principal));
    cache.set(key, visible, evaluation.ttlMs);
    return visible;
  }

  async function filter(list: ListPage, call: PolicyCall): Promise<ListDecision> {
    const startedAt = now();
    const explained = (...notes: string[]): Explanation => explain(provider, notes, now() - startedAt, read);
    const { entries } = list;
    const visible: boolean[] = [];
    try {
      for (let from = 0; from < entries.length; from += maxBatch) {
        const names = entries.slice(from, from + maxBatch).map((entry) => entry.name);
        const page = await evaluateNames(list, names, call);
        if ("refusal" in page)
          return { visible: entries.map(() => false), refusal: page.refusal, explanation: explained(page.note) };
        visible.push(...page);
      }
    } catch (error) {
      const { code, message } = GatewayError.from(error);
      if (code !== "invalid_params") throw error;
      return { visible: entries.map(() => false), explanation: explained(message) };
    }
    return { visible, explanation: explained() };
  }

  return (list, call) => {
    const { subject, kind, entries } = list;
    if (kind === "tool" && subject.method === "tools/list") declared?.learn(entries);
    if (!showsAll) return filter(list, call);
    return { visible: entries.map(() => true), explanation: explain(provider, ["lists are not filtered"]) };
  };
}

/**
 * An entry with an obligation that cannot be fulfilled is left out (Obligations profile, "Obligations and Search
 * Requests"). One that needs a stronger login is shown; the login is asked for when it is used.
 */
function isVisible(decision: AuthZenDecision, principal: Parameters<typeof readObligations>[1]): boolean {
  if (!decision.isPermitted) return false;
  const { refusal } = readObligations([decision], principal);
  return refusal === undefined || refusal.code === "step_up_required";
}
