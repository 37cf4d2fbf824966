import { isDeepStrictEqual } from "node:util";

import { GatewayError } from "../../errors.ts";
import { isObject } from "../../lib/is-object.ts";
import { pointerSteps } from "../../protocol/json/read.ts";
import { toJson } from "../cel/json-value.ts";
import type { EntityFields, EvaluationParts, EvaluationRequest } from "./mapping.ts";
import { understoodObligations } from "./obligations.ts";
import {
  type AuthZenCall,
  type AuthZenOutcome,
  type CacheLimits,
  type CallAuthZen,
  type Discovery,
  type FailedCall,
  freshnessLifetimeMs,
  unusableAnswer,
} from "./pdp-call.ts";

/** The body of a request; throws `invalid_params` if a value is not JSON, such as a number that is too long. */
export function formatRequest(request: EvaluationRequest): string {
  const body = toJson(request);
  if (body === undefined) throw new GatewayError("invalid_params", "a number is too long to be sent exactly");
  return body;
}

/** Splits a batch: the fields of an entry replace the shared ones (AuthZEN, section 7.1). */
function singleRequests({ evaluations, ...shared }: EvaluationRequest): readonly EvaluationRequest[] {
  return evaluations === undefined ? [shared] : evaluations.map((own) => ({ ...shared, ...own }));
}

/** The request with one more field in each context. */
function withContext(request: EvaluationRequest, name: string, value: unknown): EvaluationRequest {
  const add = <P extends EvaluationParts>(parts: P): P => ({
    ...parts,
    context: new Map([...(parts.context ?? []), [name, value]]),
  });
  const { evaluations } = request;
  const changed = add(request);
  return evaluations === undefined
    ? changed
    : { ...changed, evaluations: evaluations.map((own) => (own.context === undefined ? own : add(own))) };
}

/** Throws `invalid_params` if a required field is missing (AuthZEN, section 5). */
export function checkRequest(request: EvaluationRequest): void {
  for (const { subject, action, resource, context } of singleRequests(request)) {
    requireFields(subject, "subject", ["type", "id"]);
    requireFields(action, "action", ["name"]);
    requireFields(resource, "resource", ["type", "id"]);
    if (context !== undefined && !(context instanceof Map)) throw invalidRequest("`context` is not an object");
  }
}

function requireFields(fields: EntityFields | undefined, name: string, required: readonly string[]): void {
  if (fields === undefined) throw invalidRequest(`\`${name}\` is missing`);
  for (const field of required) {
    const value = fields.get(field);
    if (typeof value !== "string" || value === "") throw invalidRequest(`\`${name}.${field}\` is not a string`);
  }
  const properties = fields.get("properties");
  if (properties !== undefined && !(properties instanceof Map))
    throw invalidRequest(`\`${name}.properties\` is not an object`);
  for (const field of fields.keys()) {
    if (field !== "properties" && !required.includes(field))
      throw invalidRequest(`\`${name}.${field}\` belongs under \`${name}.properties\``);
  }
}

function invalidRequest(problem: string): GatewayError {
  return new GatewayError("invalid_params", problem);
}

/** One decision of an AuthZEN decision point. */
export interface AuthZenDecision {
  readonly isPermitted: boolean;
  /** Obligations, reasons and errors. */
  readonly context: Readonly<Record<string, unknown>>;
}

/** Parsed decisions, or what is wrong with the answer. */
export type ParsedDecisions =
  | { readonly ok: true; readonly decisions: readonly AuthZenDecision[] }
  | { readonly ok: false; readonly problem: string };

/** Parses the answer to one evaluation (AuthZEN, section 6.2). Only the boolean `true` permits. */
function parseEvaluation(value: unknown): ParsedDecisions {
  const decision = toDecision(value);
  return typeof decision === "string"
    ? { ok: false, problem: `its answer ${decision}` }
    : { ok: true, decisions: [decision] };
}

/** Parses the answer to a batch (AuthZEN, section 7.2): one decision for each evaluation, or none at all. */
function parseEvaluations(value: unknown, count: number): ParsedDecisions {
  const { evaluations, decision: overall } = Object(value) as Readonly<Record<string, unknown>>;
  if (!Array.isArray(evaluations)) return { ok: false, problem: "its answer has no `evaluations`" };
  if (overall === false) return { ok: false, problem: "its answer both denies as a whole and decides one by one" };
  if (evaluations.length !== count)
    return { ok: false, problem: `it answered ${evaluations.length} of ${count} evaluations` };
  const decisions: AuthZenDecision[] = [];
  for (const entry of evaluations as readonly unknown[]) {
    const decision = toDecision(entry);
    if (typeof decision === "string") return { ok: false, problem: `one of its answers ${decision}` };
    decisions.push(decision);
  }
  return { ok: true, decisions };
}

/** The decision, or what is wrong with it. A permission with a condition that stands where nobody reads it is none. */
function toDecision(value: unknown): AuthZenDecision | string {
  const { decision, context, obligations, evaluations } = Object(value) as Readonly<Record<string, unknown>>;
  if (typeof decision !== "boolean") return "has no boolean `decision`";
  const known = isObject(context) ? context : {};
  if (!decision) return { isPermitted: false, context: known };
  if (context !== undefined && context !== null && !isObject(context)) return "has a `context` that is not an object";
  if (evaluations !== undefined) return "has both `decision` and `evaluations`";
  const hasOutside = obligations !== undefined && obligations !== null && !isDeepStrictEqual(obligations, []);
  return hasOutside ? "has `obligations` outside its `context`" : { isPermitted: true, context: known };
}

/** The string at a JSON Pointer (RFC 6901) in a decision's context. */
export function textAtPointer(context: AuthZenDecision["context"], pointer: string): string | undefined {
  let at: unknown = context;
  for (const name of pointerSteps(pointer)) {
    if (typeof at !== "object" || at === null || !Object.hasOwn(at, name)) return undefined;
    at = Reflect.get(at, name);
  }
  return typeof at === "string" && at !== "" ? at : undefined;
}

/** One decision per evaluation, and how long they may be cached; or the error. */
type Evaluation =
  | { readonly ok: true; readonly decisions: readonly AuthZenDecision[]; readonly ttlMs: number }
  | FailedCall;

type CallContext = Pick<AuthZenCall, "requestId" | "signal">;

/** Sends an evaluation request; a batch goes as one call, or as several if the decision point takes no batches. */
export type Evaluate = (request: EvaluationRequest, context: CallContext) => Promise<Evaluation>;

interface EvaluateDeps {
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
