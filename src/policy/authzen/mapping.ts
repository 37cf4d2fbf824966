import { GatewayError } from "../../errors.ts";
import { BoundedMap } from "../../lib/bounded-map.ts";
import { isObject } from "../../lib/is-object.ts";
import { type KnownNames, knownNames } from "../../protocol/json/folded-names.ts";
import { cel } from "../../lib/lazy-modules.ts";
import { celErrorText, compileExpression, type ExpressionProblem, type MappingInputs } from "../cel/expression.ts";
import { toCelValue } from "../cel/json-value.ts";
import { joinNames, type ReadNames } from "../cel/read-names.ts";
import type { ListEntry } from "../provider/provider.ts";

/** The fields of a subject, action, resource or context, as CEL values. */
export type EntityFields = ReadonlyMap<string, unknown>;

/** One evaluation, or what the evaluations of a batch share. */
export interface EvaluationParts {
  readonly subject?: EntityFields;
  readonly action?: EntityFields;
  readonly resource?: EntityFields;
  readonly context?: EntityFields;
}

/** A request to a decision point (AuthZEN Authorization API 1.0, sections 6 and 7). */
export interface EvaluationRequest extends EvaluationParts {
  /** For a batch: what each evaluation has of its own. */
  readonly evaluations?: readonly EvaluationParts[];
}

/** A compiled mapping. */
export interface Mapping {
  /** Builds the evaluation request of a message; throws `invalid_params` if an expression has no value. */
  readonly build: (inputs: MappingInputs) => EvaluationRequest;
  /** The member names of `params` that it reads. */
  readonly names: KnownNames | undefined;
}

type Path = readonly (string | number)[];

/** A mistake in a mapping: its path, and its offset if it is inside an expression. */
export interface MappingProblem extends ExpressionProblem {
  readonly path: Path;
}

export type OnMappingProblem = (problem: MappingProblem) => void;

const partNames = ["subject", "action", "resource", "context"] as const;
const requestMembers: ReadonlySet<string> = new Set<string>([...partNames, "evaluations"]);
const maxEvaluations = 100;

/**
 * Compiles a mapping (COAZ framework, "The Mapping"): an object with the one member `evaluation` or `evaluations`.
 * Reports every mistake; a mapping with mistakes throws when it is used.
 */
export function compileMapping(value: unknown, onProblem: OnMappingProblem): Mapping {
  const build = compileRequest(value, onProblem);
  const { paths, anywhere } = joinNames(namesIn(value, 0));
  return { build, names: knownNames(paths, anywhere) };
}

/** The member names that the expressions of a mapping read. */
function namesIn(value: unknown, depth: number): readonly ReadNames[] {
  if (depth > maxDepth) return [];
  if (typeof value === "string") {
    const expression = expressionIn(value);
    const compiled = expression === undefined ? undefined : compileExpression(expression, "mapping", "optional");
    return compiled?.ok === true ? [compiled.value.names] : [];
  }
  const inner = Array.isArray(value) || isObject(value) ? Object.values(value) : [];
  return inner.flatMap((member: unknown) => namesIn(member, depth + 1));
}

type BuildRequest = Mapping["build"];

function compileRequest(value: unknown, onProblem: OnMappingProblem): BuildRequest {
  let isBroken = false;
  const report: OnMappingProblem = (problem) => {
    isBroken = true;
    onProblem(problem);
  };
  const problem = (message: string, path: Path): BuildRequest => {
    report({ message, offset: 0, path });
    return brokenMapping;
  };
  const [first, ...rest] = Object.entries(isObject(value) ? value : {});
  if (first === undefined || rest.length > 0 || (first[0] !== "evaluation" && first[0] !== "evaluations"))
    return problem("needs exactly one member, `evaluation` or `evaluations`", []);
  const [envelope, body] = first;
  if (!isObject(body)) return problem("is not a request", [envelope]);
  for (const name of Object.keys(body)) {
    if (!requestMembers.has(name) || (name === "evaluations" && envelope === "evaluation"))
      problem("is not a member of a request", [envelope, name]);
  }
  const shared = compileParts(body, [envelope], report);
  if (envelope === "evaluation") return isBroken ? brokenMapping : (inputs) => resolveParts(shared, inputs);
  const { evaluations } = body;
  if (!Array.isArray(evaluations) || evaluations.length === 0 || evaluations.length > maxEvaluations)
    return problem(`needs 1 to ${maxEvaluations} entries`, [envelope, "evaluations"]);
  const entries = evaluations.map((entry: unknown, index) => {
    const path = [envelope, "evaluations", index];
    if (!isObject(entry)) {
      problem("is not an evaluation", path);
      return [];
    }
    for (const name of Object.keys(entry)) {
      // All evaluations share the verified subject (COAZ-MCP binding, "Declared Mappings").
      if (name === "subject") problem("must not have its own subject", [...path, name]);
      else if (!requestMembers.has(name) || name === "evaluations")
        problem("is not a member of an evaluation", [...path, name]);
    }
    return compileParts(entry, path, report);
  });
  if (isBroken) return brokenMapping;
  return (inputs) => ({
    ...resolveParts(shared, inputs),
    evaluations: entries.map((entry) => resolveParts(entry, inputs)),
  });
}

const brokenMapping: BuildRequest = () => {
  throw new GatewayError("invalid_params", "the mapping is malformed");
};

type CompiledParts = readonly (readonly [(typeof partNames)[number], Template])[];

function compileParts(body: Readonly<Record<string, unknown>>, path: Path, onProblem: OnMappingProblem): CompiledParts {
  return partNames.flatMap((name) =>
    body[name] === undefined ? [] : [[name, compileTemplate(body[name], onProblem, [...path, name])] as const],
  );
}

function resolveParts(parts: CompiledParts, inputs: MappingInputs): EvaluationParts {
  const resolved = parts.flatMap(([name, template]) => {
    const value = template(inputs);
    if (value === undefined) return [];
    if (!(value instanceof Map)) throw new GatewayError("invalid_params", `\`${name}\` is not an object`);
    return [[name, value as EntityFields] as const];
  });
  return Object.fromEntries(resolved);
}

/** A value in a mapping, resolved per message; undefined leaves it out. */
export type Template = (inputs: MappingInputs) => unknown;

const maxDepth = 20;

/**
 * Compiles a value of a mapping (COAZ framework, "Literals and Expressions"): a string that starts with `$` is CEL, a
 * leading `$$` stands for one `$`, anything else is a literal. A template throws `invalid_params` if its expression has
 * no value.
 */
export function compileTemplate(value: unknown, onProblem: OnMappingProblem, path: Path = []): Template {
  if (path.length > maxDepth) {
    onProblem({ message: "is nested too deep", offset: 0, path });
    return () => undefined;
  }
  if (typeof value === "string") return compileText(value, onProblem, path);
  if (Array.isArray(value)) {
    const items = value.map((item: unknown, index) => compileTemplate(item, onProblem, [...path, index]));
    return (inputs) => items.map((item) => item(inputs)).filter((item) => item !== undefined);
  }
  if (!isObject(value)) {
    const literal = toCelValue(value);
    return () => literal;
  }
  const members = Object.entries(value).map(
    ([name, member]) => [name, compileTemplate(member, onProblem, [...path, name])] as const,
  );
  return (inputs) => {
    const resolved = members.map(([name, member]) => [name, member(inputs)] as const);
    return new Map(resolved.filter(([, member]) => member !== undefined));
  };
}

function compileText(text: string, onProblem: OnMappingProblem, path: Path): Template {
  const expression = expressionIn(text);
  if (expression === undefined) {
    const literal = text.startsWith("$") ? text.slice(1) : text;
    return () => literal;
  }
  const compiled = compileExpression(expression, "mapping", "optional");
  if (!compiled.ok) {
    const { message, offset } = compiled.problem;
    onProblem({ message, offset: offset + 1, path });
    return () => undefined;
  }
  const { evaluate } = compiled.value;
  const { Optional } = cel();
  return (inputs) => {
    let result: unknown;
    try {
      result = evaluate(inputs);
    } catch (error) {
      throw new GatewayError("invalid_params", `the expression \`${text}\` failed: ${celErrorText(error)}`);
    }
    if (!(result instanceof Optional)) return result;
    return result.hasValue() ? (result.value() as unknown) : undefined;
  };
}

/** The expression that a string of a mapping is; undefined if it is a literal. */
function expressionIn(text: string): string | undefined {
  return text.startsWith("$") && !text.startsWith("$$") ? text.slice(1) : undefined;
}

/** What a server declares for a tool. */
export type MappingDeclaration =
  /** The tool has not been listed yet. */
  | { readonly type: "unseen" }
  | { readonly type: "none" }
  | { readonly type: "mapping"; readonly mapping: Mapping }
  | { readonly type: "broken"; readonly problem: string };

/** Mappings that servers declare for their tools (COAZ-MCP binding, "Declaring a Mapping"), learned from `tools/list`. */
export interface DeclaredMappings {
  learn(entries: readonly ListEntry[]): void;
  find(tool: string): MappingDeclaration;
}

const maxTools = 10_000;

export function createDeclaredMappings(): DeclaredMappings {
  /** A declaration is compiled when its tool is first called. */
  const tools = new BoundedMap<string, { readonly text: string | undefined; compiled?: MappingDeclaration }>(maxTools);
  return {
    learn: (entries) => {
      for (const { name, value } of entries) {
        const text = declarationIn(value);
        const known = tools.get(name);
        tools.set(name, known !== undefined && known.text === text ? known : { text });
      }
    },
    find: (tool) => {
      const known = tools.get(tool);
      return known === undefined ? { type: "unseen" } : (known.compiled ??= compileDeclaration(known.text));
    },
  };
}

function declarationIn({ inputSchema }: Readonly<Record<string, unknown>>): string | undefined {
  if (typeof inputSchema !== "object" || inputSchema === null) return undefined;
  if (!Object.hasOwn(inputSchema, "x-authzen-mapping")) return undefined;
  return JSON.stringify(Reflect.get(inputSchema, "x-authzen-mapping"));
}

function compileDeclaration(text: string | undefined): MappingDeclaration {
  if (text === undefined) return { type: "none" };
  const problems: string[] = [];
  const mapping = compileMapping(JSON.parse(text), ({ path, message }) => {
    problems.push(`${path.join(".")} ${message}`.trim());
  });
  return problems.length === 0 ? { type: "mapping", mapping } : { type: "broken", problem: problems.join("; ") };
}
