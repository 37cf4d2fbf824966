import {
  type AuthZenDecision,
  formatRequest,
  type ParsedDecisions,
  parseEvaluation,
  parseEvaluations,
  singleRequests,
  withContext,
} from "./evaluation-api.ts";
import type { EvaluationRequest } from "./mapping.ts";
import type { Discovery } from "./metadata.ts";
import { understoodObligations } from "./obligations.ts";
import {
  type AuthZenCall,
  type AuthZenOutcome,
  type CacheLimits,
  type CallAuthZen,
  type FailedCall,
  freshnessLifetimeMs,
  unusableAnswer,
} from "./pdp-call.ts";

/** One decision per evaluation, and how long they may be cached; or why there are none. */
export type Evaluation =
  | { readonly ok: true; readonly decisions: readonly AuthZenDecision[]; readonly ttlMs: number }
  | FailedCall;

type CallContext = Pick<AuthZenCall, "requestId" | "signal">;

/** Sends an evaluation request; a batch goes as one call, or as several if the decision point takes no batches. */
export type Evaluate = (request: EvaluationRequest, context: CallContext) => Promise<Evaluation>;

export interface EvaluateDeps {
  readonly call: CallAuthZen;
  readonly discovery: Discovery;
  readonly cacheLimits: CacheLimits;
}

/** Concurrent calls for a batch that has to be split. */
const maxConcurrentCalls = 8;
/** Statuses of servers that do not have the batch endpoint after all. */
const noSuchEndpoint: ReadonlySet<number> = new Set([404, 405, 501]);

export function createEvaluate({ call, discovery, cacheLimits }: EvaluateDeps): Evaluate {
  function toEvaluation(outcome: AuthZenOutcome, parse: (value: unknown) => ParsedDecisions): Evaluation {
    if (!outcome.ok) return outcome;
    const parsed = parse(outcome.value);
    if (!parsed.ok) return unusableAnswer(parsed.problem);
    return { ok: true, decisions: parsed.decisions, ttlMs: freshnessLifetimeMs(outcome.headers, cacheLimits) };
  }

  async function evaluateEach(
    requests: readonly EvaluationRequest[],
    path: string,
    context: CallContext,
  ): Promise<Evaluation> {
    const decisions: AuthZenDecision[] = [];
    let ttlMs = Number.POSITIVE_INFINITY;
    for (let from = 0; from < requests.length; from += maxConcurrentCalls) {
      const calls = requests
        .slice(from, from + maxConcurrentCalls)
        .map(async (request) => call({ ...context, path, body: formatRequest(request) }));
      for (const outcome of await Promise.all(calls)) {
        const evaluation = toEvaluation(outcome, parseEvaluation);
        if (!evaluation.ok) return evaluation;
        decisions.push(...evaluation.decisions);
        ttlMs = Math.min(ttlMs, evaluation.ttlMs);
      }
    }
    return { ok: true, decisions, ttlMs };
  }

  return async (given, context) => {
    const found = await discovery.find(context);
    if (!found.ok) return found;
    const { evaluation: path, evaluations: batchPath, hasObligations } = found.endpoints;
    // Obligations profile, "Negotiation".
    const request = hasObligations ? withContext(given, "supported_obligations", understoodObligations) : given;
    const singles = singleRequests(request);
    if (singles.length === 1 || batchPath === undefined) return evaluateEach(singles, path, context);
    const outcome = await call({ ...context, path: batchPath, body: formatRequest(request) });
    if (outcome.ok || !noSuchEndpoint.has(outcome.status ?? 0))
      return toEvaluation(outcome, (value) => parseEvaluations(value, singles.length));
    discovery.disableBatches();
    return evaluateEach(singles, path, context);
  };
}
