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
