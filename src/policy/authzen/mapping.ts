import { GatewayError } from "../../errors.ts";
import type { MappingInputs } from "../cel/expression.ts";
import { compileTemplate, type OnTemplateProblem, type Template } from "./template.ts";

/** A member of a request as it was worked out: maps, lists and scalars of CEL. */
export type EntityFields = ReadonlyMap<string, unknown>;

/** One decision that is asked for, or what several have in common. */
export interface EvaluationParts {
  readonly subject?: EntityFields;
  readonly action?: EntityFields;
  readonly resource?: EntityFields;
  readonly context?: EntityFields;
}

/** A request to a decision point (AuthZEN Authorization API 1.0, sections 6 and 7). */
export interface EvaluationRequest extends EvaluationParts {
  /** Several decisions, each with what it has of its own; one decision unless given. */
  readonly evaluations?: readonly EvaluationParts[];
}

/** Makes the request for a message; throws `invalid_params` where it cannot be made. */
export type Mapping = (inputs: MappingInputs) => EvaluationRequest;

const partNames = ["subject", "action", "resource", "context"] as const;
const members: ReadonlySet<string> = new Set<string>([...partNames, "evaluations"]);
/** Most decisions that one call may need. */
const maxEntries = 100;

/**
 * Compiles a mapping (COAZ framework, "The Mapping"): an object with the one member `evaluation` or `evaluations`. All
 * mistakes are told; the mapping is of no use then.
 */
export function compileMapping(value: unknown, onProblem: OnTemplateProblem): Mapping {
  let isBroken = false;
  const tell = (message: string, path: readonly (string | number)[]): void => {
    isBroken = true;
    onProblem({ message, offset: 0, path });
  };
  const watch: OnTemplateProblem = (problem) => {
    isBroken = true;
    onProblem(problem);
  };
  const envelopes = Object.entries(isObject(value) ? value : {});
  const [first, ...rest] = envelopes;
  if (first === undefined || rest.length > 0 || (first[0] !== "evaluation" && first[0] !== "evaluations")) {
    tell("needs exactly one member, `evaluation` or `evaluations`", []);
    return brokenMapping;
  }
  const [envelope, body] = first;
  if (!isObject(body)) {
    tell("is no request", [envelope]);
    return brokenMapping;
  }
  for (const name of Object.keys(body)) {
    if (!members.has(name) || (name === "evaluations" && envelope === "evaluation"))
      tell("is no member of a request", [envelope, name]);
  }
  const shared = compileParts(body, [envelope], watch);
  if (envelope === "evaluation") return isBroken ? brokenMapping : (inputs) => resolveParts(shared, inputs);
  const { evaluations } = body;
  if (!Array.isArray(evaluations) || evaluations.length === 0 || evaluations.length > maxEntries) {
    tell(`needs 1 to ${maxEntries} entries`, [envelope, "evaluations"]);
    return brokenMapping;
  }
  const entries = evaluations.map((entry: unknown, index) => {
    const path = [envelope, "evaluations", index];
    if (!isObject(entry)) {
      tell("is no evaluation", path);
      return [];
    }
    for (const name of Object.keys(entry)) {
      // One subject for all: an entry of its own could smuggle another in (COAZ-MCP binding, "Declared Mappings").
      if (name === "subject") tell("must not stand in an entry: one subject holds for all", [...path, name]);
      else if (!members.has(name) || name === "evaluations")
        tell("is no member of an evaluation", [...path, name]);
    }
    return compileParts(entry, path, watch);
  });
  if (isBroken) return brokenMapping;
  return (inputs) => ({
    ...resolveParts(shared, inputs),
    evaluations: entries.map((entry) => resolveParts(entry, inputs)),
  });
}

type CompiledParts = readonly (readonly [(typeof partNames)[number], Template])[];

function compileParts(
  body: Readonly<Record<string, unknown>>,
  path: readonly (string | number)[],
  onProblem: OnTemplateProblem,
): CompiledParts {
  return partNames.flatMap((name) => {
    if (body[name] === undefined) return [];
    return [[name, compileTemplate(body[name], onProblem, [...path, name])] as const];
  });
}

function resolveParts(parts: CompiledParts, inputs: MappingInputs): EvaluationParts {
  const resolved = parts.flatMap(([name, template]) => {
    const value = template(inputs);
    if (value === undefined) return [];
    if (!(value instanceof Map)) throw new GatewayError("invalid_params", `\`${name}\` is no object`);
    return [[name, value as EntityFields] as const];
  });
  return Object.fromEntries(resolved);
}

const brokenMapping: Mapping = () => {
  throw new GatewayError("invalid_params", "the mapping is malformed");
};

function isObject(value: unknown): value is Readonly<Record<string, unknown>> {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}
