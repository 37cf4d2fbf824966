import { GatewayError } from "../../errors.ts";
import { isObject } from "../../lib/is-object.ts";
import { toJson } from "../cel/json-value.ts";
import type { EntityFields, EvaluationParts, EvaluationRequest } from "./mapping.ts";

/** The body of a request; throws `invalid_params` if a value is not JSON, such as a number that is too long. */
export function formatRequest(request: EvaluationRequest): string {
  const body = toJson(request);
  if (body === undefined) throw new GatewayError("invalid_params", "a number is too long to be sent exactly");
  return body;
}

/** Splits a batch: the fields of an entry replace the shared ones (AuthZEN, section 7.1). */
export function singleRequests({ evaluations, ...shared }: EvaluationRequest): readonly EvaluationRequest[] {
  return evaluations === undefined ? [shared] : evaluations.map((own) => ({ ...shared, ...own }));
}

/** The request with one more field in each context. */
export function withContext(request: EvaluationRequest, name: string, value: unknown): EvaluationRequest {
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
export function parseEvaluation(value: unknown): ParsedDecisions {
  const decision = toDecision(value);
  return decision === undefined
    ? { ok: false, problem: "its answer has no boolean `decision`" }
    : { ok: true, decisions: [decision] };
}

/** Parses the answer to a batch (AuthZEN, section 7.2): one decision for each evaluation, or none at all. */
export function parseEvaluations(value: unknown, count: number): ParsedDecisions {
  const { evaluations } = Object(value) as Readonly<Record<string, unknown>>;
  if (!Array.isArray(evaluations)) return { ok: false, problem: "its answer has no `evaluations`" };
  if (evaluations.length !== count)
    return { ok: false, problem: `it answered ${evaluations.length} of ${count} evaluations` };
  const decisions = evaluations.flatMap((entry: unknown) => toDecision(entry) ?? []);
  return decisions.length === count
    ? { ok: true, decisions }
    : { ok: false, problem: "one of its answers has no boolean `decision`" };
}

function toDecision(value: unknown): AuthZenDecision | undefined {
  const { decision, context } = Object(value) as Readonly<Record<string, unknown>>;
  if (typeof decision !== "boolean") return undefined;
  return { isPermitted: decision, context: isObject(context) ? context : {} };
}

/** The string at a JSON Pointer (RFC 6901) in a decision's context. */
export function textAtPointer(context: AuthZenDecision["context"], pointer: string): string | undefined {
  let at: unknown = context;
  for (const step of pointer.split("/").slice(1)) {
    const name = step.replaceAll("~1", "/").replaceAll("~0", "~");
    if (typeof at !== "object" || at === null || !Object.hasOwn(at, name)) return undefined;
    at = Reflect.get(at, name);
  }
  return typeof at === "string" && at !== "" ? at : undefined;
}
