import {
  type AuthZenDecision,
  formatRequest,
  type ParsedDecisions,
  parseEvaluation,
  parseEvaluations,
  singleRequests,
  withContext,
} from "./evaluation-api.ts";
import {
  type AuthZenCall,
  type AuthZenOutcome,
  type CacheLimits,
  type CallAuthZen,
  freshnessLifetimeMs,
  unusableAnswer,
} from "./pdp-call.ts";
import type { EvaluationRequest } from "./mapping.ts";
import type { Discovery, Endpoints } from "./metadata.ts";
import { understoodObligations } from "./obligations.ts";

/** Decisions, one for each that was asked for, and how long they hold; or why there are none. */
export type Evaluation =
  | { readonly ok: true; readonly decisions: readonly AuthZenDecision[]; readonly ttlMs: number }
  | Extract<AuthZenOutcome, { readonly ok: false }>;

/** Puts a request to the decision point, as one question or, where it takes no batches, as several. */
export type Evaluate = (
  request: EvaluationRequest,
  circumstances: Pick<AuthZenCall, "requestId" | "signal">,
) => Promise<Evaluation>;

/** What evaluation is made of. */
export interface EvaluateOptions {
  readonly call: CallAuthZen;
  readonly discovery: Discovery;
  readonly terms: CacheLimits;
}

/** Questions that are out at the same time where a batch has to be asked one by one. */
const atOnce = 8;
/** What servers say who do not have the batch endpoint after all. */
const noSuchEndpoint: ReadonlySet<number> = new Set([404, 405, 501]);

/** Makes the function that asks. Fewer decisions than were asked for are none. */
export function createEvaluate({ call, discovery, terms }: EvaluateOptions): Evaluate {
  function read(outcome: AuthZenOutcome, reading: (value: unknown) => ParsedDecisions): Evaluation {
    if (!outcome.ok) return outcome;
    const answer = reading(outcome.value);
    if (!answer.ok) return unusableAnswer(answer.problem);
    return { ok: true, decisions: answer.decisions, ttlMs: freshnessLifetimeMs(outcome.headers, terms) };
  }

  async function one(
    request: EvaluationRequest,
    path: string,
    circumstances: Pick<AuthZenCall, "requestId" | "signal">,
  ): Promise<Evaluation> {
    const { body } = formatRequest(request);
    return read(await call({ ...circumstances, path, body }), parseEvaluation);
  }

  async function oneByOne(
    requests: readonly EvaluationRequest[],
    path: string,
    circumstances: Pick<AuthZenCall, "requestId" | "signal">,
  ): Promise<Evaluation> {
    const decisions: AuthZenDecision[] = [];
    let ttlMs = Number.POSITIVE_INFINITY;
    for (let from = 0; from < requests.length; from += atOnce) {
      const some = requests.slice(from, from + atOnce);
      for (const evaluation of await Promise.all(some.map((request) => one(request, path, circumstances)))) {
        if (!evaluation.ok) return evaluation;
        decisions.push(...evaluation.decisions);
        ttlMs = Math.min(ttlMs, evaluation.ttlMs);
      }
    }
    return { ok: true, decisions, ttlMs };
  }

  async function ask(
    request: EvaluationRequest,
    endpoints: Endpoints,
    circumstances: Pick<AuthZenCall, "requestId" | "signal">,
  ): Promise<Evaluation> {
    const singles = singleRequests(request);
    const { evaluation, evaluations } = endpoints;
    if (singles.length === 1 || evaluations === undefined) return oneByOne(singles, evaluation, circumstances);
    const { body, count } = formatRequest(request);
    const outcome = await call({ ...circumstances, path: evaluations, body });
    if (outcome.ok || !noSuchEndpoint.has(outcome.status ?? 0))
      return read(outcome, (value) => parseEvaluations(value, count));
    discovery.disableBatches();
    return oneByOne(singles, evaluation, circumstances);
  }

  return async (request, circumstances) => {
    const found = await discovery.find(circumstances);
    if (!found.ok) return found;
    const { endpoints } = found;
    // Obligations profile, "Negotiation": whoever may attach some is told which ones are understood.
    const told = endpoints.hasObligations
      ? withContext(request, "supported_obligations", understoodObligations)
      : request;
    return ask(told, endpoints, circumstances);
  };
}
