import type { AnswerReading, Decision } from "./answers.ts";
import { readEvaluation, readEvaluations } from "./answers.ts";
import { lifetimeOf, type CacheTerms } from "./cache-terms.ts";
import type { EvaluationRequest } from "./mapping.ts";
import type { Discovery } from "./metadata.ts";
import { understoodObligations } from "./obligations.ts";
import { unusable, type CallPdp, type PdpCall, type PdpOutcome } from "./pdp-call.ts";
import type { Endpoints } from "./pdp-url.ts";
import { formatRequest, singleRequests, withContext } from "./request-text.ts";

/** Decisions, one for each that was asked for, and how long they hold; or why there are none. */
export type Evaluation =
  | { readonly ok: true; readonly decisions: readonly Decision[]; readonly ttlMs: number }
  | Extract<PdpOutcome, { readonly ok: false }>;

/** Puts a request to the decision point, as one question or, where it takes no batches, as several. */
export type Evaluate = (
  request: EvaluationRequest,
  circumstances: Pick<PdpCall, "requestId" | "signal">,
) => Promise<Evaluation>;

/** What evaluation is made of. */
export interface EvaluateOptions {
  readonly call: CallPdp;
  readonly discovery: Discovery;
  readonly terms: CacheTerms;
}

/** Questions that are out at the same time where a batch has to be asked one by one. */
const atOnce = 8;
/** What servers say who do not have the batch endpoint after all. */
const noSuchEndpoint: ReadonlySet<number> = new Set([404, 405, 501]);

/** Makes the function that asks. Fewer decisions than were asked for are none. */
export function createEvaluate({ call, discovery, terms }: EvaluateOptions): Evaluate {
  function read(outcome: PdpOutcome, reading: (value: unknown) => AnswerReading): Evaluation {
    if (!outcome.ok) return outcome;
    const answer = reading(outcome.value);
    if (!answer.ok) return unusable(answer.problem);
    return { ok: true, decisions: answer.decisions, ttlMs: lifetimeOf(outcome.headers, terms) };
  }

  async function one(
    request: EvaluationRequest,
    path: string,
    circumstances: Pick<PdpCall, "requestId" | "signal">,
  ): Promise<Evaluation> {
    const { body } = formatRequest(request);
    return read(await call({ ...circumstances, path, body }), readEvaluation);
  }

  async function oneByOne(
    requests: readonly EvaluationRequest[],
    path: string,
    circumstances: Pick<PdpCall, "requestId" | "signal">,
  ): Promise<Evaluation> {
    const decisions: Decision[] = [];
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
    circumstances: Pick<PdpCall, "requestId" | "signal">,
  ): Promise<Evaluation> {
    const singles = singleRequests(request);
    const { evaluation, evaluations } = endpoints;
    if (singles.length === 1 || evaluations === undefined)
      return oneByOne(singles, evaluation, circumstances);
    const { body, count } = formatRequest(request);
    const outcome = await call({ ...circumstances, path: evaluations, body });
    if (outcome.ok || !noSuchEndpoint.has(outcome.status ?? 0))
      return read(outcome, (value) => readEvaluations(value, count));
    discovery.noBatches();
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
