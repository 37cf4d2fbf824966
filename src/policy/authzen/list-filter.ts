import { createTtlCache } from "../../lib/ttl-cache.ts";
import type { Explanation, ListDecision, ListPage, PolicyCall, PolicyRefusal } from "../provider/provider.ts";
import { type AuthZenDecision, formatRequest } from "./evaluation-api.ts";
import type { DeclaredMappings } from "./mapping.ts";
import { type IdentityOptions, listRequest } from "./default-mappings.ts";
import type { Evaluate } from "./evaluate.ts";
import { readObligations } from "./obligations.ts";
import { GatewayError } from "../../errors.ts";

/** What filtering is made of. */
export interface ListFilterOptions {
  readonly evaluate: Evaluate;
  readonly settings: IdentityOptions;
  /** Where to learn what tools declare. */
  readonly declared: DeclaredMappings | undefined;
  /** Whether everything is shown, and lists are only learned from. */
  readonly isShowing: boolean;
  readonly maxBatch: number;
  /** Most answers about pages that are kept. */
  readonly maxKept: number;
  readonly now: () => number;
  readonly onLook?: ((isHit: boolean) => void) | undefined;
  readonly explain: (startedAt: number, read: readonly string[], notes: readonly string[]) => Explanation;
}

const seen: readonly string[] = ["principal", "mcp", "entry.name"];
const nothingSeen: readonly string[] = [];

/**
 * Makes the function that decides which entries of a page are shown: those that may be used, asked for in one batch.
 * Mappings that tools declare are not used for that, for they are about arguments; the call is decided about anyway.
 */
export function createListFilter(
  options: ListFilterOptions,
): (list: ListPage, call: PolicyCall) => ListDecision | Promise<ListDecision> {
  const { evaluate, settings, declared, isShowing, maxBatch, now, onLook, explain } = options;
  const kept = createTtlCache<readonly boolean[]>(options.maxKept, now);

  /** Which of some names may be seen, or why that is not known. */
  async function look(
    { subject, kind }: ListPage,
    names: readonly string[],
    { signal }: PolicyCall,
  ): Promise<readonly boolean[] | { readonly refusal: PolicyRefusal; readonly note: string }> {
    const { exchange } = subject;
    const request = listRequest(exchange, kind, names, settings);
    const { body: key } = formatRequest(request);
    const known = kept.get(key);
    onLook?.(known !== undefined);
    if (known !== undefined) return known;
    const evaluation = await evaluate(request, { requestId: exchange.id, signal });
    if (!evaluation.ok) return evaluation;
    const visible = evaluation.decisions.map((decision) => isVisible(decision, exchange.principal));
    kept.set(key, visible, evaluation.ttlMs);
    return visible;
  }

  async function filter(list: ListPage, call: PolicyCall): Promise<ListDecision> {
    const startedAt = now();
    const { entries } = list;
    const visible: boolean[] = [];
    try {
      for (let from = 0; from < entries.length; from += maxBatch) {
        const names = entries.slice(from, from + maxBatch).map((entry) => entry.name);
        const some = await look(list, names, call);
        if ("refusal" in some) {
          const { refusal, note } = some;
          return {
            visible: entries.map(() => false),
            refusal,
            explanation: explain(startedAt, seen, [note]),
          };
        }
        visible.push(...some);
      }
    } catch (error) {
      const { code, message } = GatewayError.from(error);
      if (code !== "invalid_params") throw error;
      return { visible: entries.map(() => false), explanation: explain(startedAt, seen, [message]) };
    }
    return { visible, explanation: explain(startedAt, seen, []) };
  }

  return (list, call) => {
    const { subject, kind, entries } = list;
    if (kind === "tool" && subject.method === "tools/list") declared?.learn(entries);
    if (!isShowing) return filter(list, call);
    return {
      visible: entries.map(() => true),
      explanation: explain(now(), nothingSeen, ["lists are shown whole"]),
    };
  };
}

/**
 * An entry with an obligation that nobody could fulfil is left out by itself (Obligations profile, "Obligations and Search
 * Requests"); a stronger login is asked for when it is used.
 */
function isVisible(decision: AuthZenDecision, principal: Parameters<typeof readObligations>[1]): boolean {
  if (!decision.isPermitted) return false;
  const { refusal: denial } = readObligations([decision], principal);
  return denial === undefined || denial.code === "step_up_required";
}
