import { GatewayError } from "../../errors.ts";
import { toJson } from "../cel/json-value.ts";
import type { EntityFields, EvaluationParts, EvaluationRequest } from "./mapping.ts";

/** A request as it is sent: to which API, and its body. */
export interface FormattedRequest {
  readonly api: "evaluation" | "evaluations";
  readonly body: string;
  /** How many decisions it asks for. */
  readonly count: number;
}

/** Writes a request; throws `invalid_params` where something in it is no JSON, such as a number that was too long. */
export function formatRequest(request: EvaluationRequest): FormattedRequest {
  const { evaluations, ...shared } = request;
  const value = { ...shared, ...(evaluations === undefined ? {} : { evaluations }) };
  const body = toJson(value);
  if (body === undefined) throw new GatewayError("invalid_params", "it holds a value that cannot be told exactly");
  return {
    api: evaluations === undefined ? "evaluation" : "evaluations",
    body,
    count: evaluations?.length ?? 1,
  };
}

/** One request for each decision of another: what an entry has takes the place of what all have (AuthZEN, section 7.1). */
export function singleRequests({ evaluations, ...shared }: EvaluationRequest): readonly EvaluationRequest[] {
  return evaluations === undefined ? [shared] : evaluations.map((own) => ({ ...shared, ...own }));
}

/** The request with more said in its context. */
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

/** Throws `invalid_params` where a decision lacks what every one needs (AuthZEN, section 5). */
export function checkRequest(request: EvaluationRequest): void {
  for (const { subject, action, resource, context } of singleRequests(request)) {
    requireFields(subject, "subject", ["type", "id"]);
    requireFields(action, "action", ["name"]);
    requireFields(resource, "resource", ["type", "id"]);
    if (context !== undefined && !(context instanceof Map)) throw invalidRequest("`context` is no object");
  }
}

function requireFields(part: EntityFields | undefined, name: string, members: readonly string[]): void {
  if (part === undefined) throw invalidRequest(`there is no \`${name}\``);
  for (const member of members) {
    const value = part.get(member);
    if (typeof value !== "string" || value === "") throw invalidRequest(`\`${name}.${member}\` is no text`);
  }
  const properties = part.get("properties");
  if (properties !== undefined && !(properties instanceof Map))
    throw invalidRequest(`\`${name}.properties\` is no object`);
  for (const member of part.keys()) {
    if (member !== "properties" && !members.includes(member))
      throw invalidRequest(`\`${name}.${member}\` belongs under \`${name}.properties\``);
  }
}

function invalidRequest(problem: string): GatewayError {
  return new GatewayError("invalid_params", problem);
}

/** One decision of a decision point. */
export interface AuthZenDecision {
  readonly isPermitted: boolean;
  /** What it says beside that; obligations are in here. */
  readonly context: Readonly<Record<string, unknown>>;
}

/** Decisions that were understood, or why an answer is none. */
export type ParsedDecisions =
  | { readonly ok: true; readonly decisions: readonly AuthZenDecision[] }
  | { readonly ok: false; readonly problem: string };

/** Reads the answer to one question (AuthZEN, section 6.2). Only the boolean `true` is a permit. */
export function parseEvaluation(value: unknown): ParsedDecisions {
  const decision = toDecision(value);
  return decision === undefined
    ? { ok: false, problem: "its answer has no boolean `decision`" }
    : { ok: true, decisions: [decision] };
}

/** Reads the answer to several questions (AuthZEN, section 7.2): one decision for each, in their order, or none at all. */
export function parseEvaluations(value: unknown, count: number): ParsedDecisions {
  const { evaluations } = Object(value) as Readonly<Record<string, unknown>>;
  if (!Array.isArray(evaluations)) return { ok: false, problem: "its answer has no `evaluations`" };
  if (evaluations.length !== count)
    return { ok: false, problem: `it answered ${evaluations.length} questions of ${count}` };
  const decisions = evaluations.flatMap((entry: unknown) => toDecision(entry) ?? []);
  return decisions.length === count
    ? { ok: true, decisions }
    : { ok: false, problem: "one of its answers has no boolean `decision`" };
}

function toDecision(value: unknown): AuthZenDecision | undefined {
  if (typeof value !== "object" || value === null) return undefined;
  const { decision, context } = value as Readonly<Record<string, unknown>>;
  if (typeof decision !== "boolean") return undefined;
  const isObject = typeof context === "object" && context !== null && !Array.isArray(context);
  return { isPermitted: decision, context: isObject ? (context as AuthZenDecision["context"]) : {} };
}

/** The text at a JSON Pointer (RFC 6901) of what a decision says; undefined where there is none. */
export function textAtPointer(context: AuthZenDecision["context"], pointer: string): string | undefined {
  let at: unknown = context;
  for (const step of pointer.split("/").slice(1)) {
    const name = step.replaceAll("~1", "/").replaceAll("~0", "~");
    if (typeof at !== "object" || at === null || !Object.hasOwn(at, name)) return undefined;
    at = Reflect.get(at, name);
  }
  return typeof at === "string" && at !== "" ? at : undefined;
}
