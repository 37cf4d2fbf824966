import { GatewayError } from "../../errors.ts";
import { celErrorText, compileExpression, type ExpressionProblem, type MappingInputs } from "../cel/expression.ts";
import type { ListEntry } from "../provider/provider.ts";
import { celEngine } from "../cel/environment.ts";
import { type CelValue, toCelValue } from "../cel/json-value.ts";

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
const mappingMembers: ReadonlySet<string> = new Set<string>([...partNames, "evaluations"]);
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
    if (!mappingMembers.has(name) || (name === "evaluations" && envelope === "evaluation"))
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
      else if (!mappingMembers.has(name) || name === "evaluations")
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

/** What is known of how calls of a tool are to be decided. */
export type MappingDeclaration =
  /** Nobody has listed the tool yet. */
  | { readonly type: "unseen" }
  /** It declares nothing: the default holds. */
  | { readonly type: "none" }
  | { readonly type: "mapping"; readonly mapping: Mapping }
  /** What it declares cannot be understood. */
  | { readonly type: "broken"; readonly problem: string };

/** Mappings that servers declare for their tools, learned from the lists that pass by. */
export interface DeclaredMappings {
  /** Learns from a page of tools. */
  learn(entries: readonly ListEntry[]): void;
  find(tool: string): MappingDeclaration;
}

/** Tools that are kept; the one that was listed longest ago goes first. */
const maxTools = 10_000;

const unseenDeclaration: MappingDeclaration = { type: "unseen" };
const noDeclaration: MappingDeclaration = { type: "none" };

interface Seen {
  /** The declaration as it was written. */
  readonly text: string | undefined;
  /** Compiled when the tool is first called: most of them never are. */
  compiled: MappingDeclaration | undefined;
}

/** Makes an empty memory (COAZ-MCP binding, "Declaring a Mapping"). */
export function createDeclaredMappings(): DeclaredMappings {
  const tools = new Map<string, Seen>();
  return {
    learn: (entries) => {
      for (const { name, value } of entries) {
        const text = declarationIn(value);
        const before = tools.get(name);
        tools.delete(name);
        tools.set(name, before?.text === text && before !== undefined ? before : { text, compiled: undefined });
        const [oldest] = tools.keys();
        if (tools.size > maxTools && oldest !== undefined) tools.delete(oldest);
      }
    },
    find: (tool) => {
      const seen = tools.get(tool);
      return seen === undefined ? unseenDeclaration : (seen.compiled ??= compileDeclaration(seen.text));
    },
  };
}

function declarationIn({ inputSchema }: Readonly<Record<string, unknown>>): string | undefined {
  if (typeof inputSchema !== "object" || inputSchema === null) return undefined;
  if (!Object.hasOwn(inputSchema, "x-authzen-mapping")) return undefined;
  return JSON.stringify(Reflect.get(inputSchema, "x-authzen-mapping"));
}

function compileDeclaration(text: string | undefined): MappingDeclaration {
  if (text === undefined) return noDeclaration;
  const problems: string[] = [];
  const mapping = compileMapping(JSON.parse(text), ({ path, message }) => {
    problems.push(`${path.join(".")} ${message}`.trim());
  });
  return problems.length === 0 ? { type: "mapping", mapping } : { type: "broken", problem: problems.join("; ") };
}

/** A value of a mapping: what it comes to for a message; undefined where it is left out. */
export type Template = (inputs: MappingInputs) => unknown;

/** What is wrong with a template, and where in it; the offset is that of a mistake inside of an expression. */
export interface TemplateProblem extends ExpressionProblem {
  readonly path: readonly (string | number)[];
}

/** Told of every mistake. */
export type OnTemplateProblem = (problem: TemplateProblem) => void;

/** How deep a template may be; deeper ones are no requests of AuthZEN. */
const maxDepth = 20;

/**
 * Compiles a value of a mapping (COAZ framework, "Literals and Expressions"): texts that begin with `$` are CEL, `$$` at
 * the beginning stands for one `$`, everything else is itself. The template throws `invalid_params` where an expression
 * has no value.
 */
export function compileTemplate(
  value: unknown,
  onProblem: OnTemplateProblem,
  path: readonly (string | number)[] = [],
): Template {
  if (path.length > maxDepth) {
    onProblem({ message: "is nested too deep", offset: 0, path });
    return () => undefined;
  }
  if (typeof value === "string") return compileText(value, onProblem, path);
  if (Array.isArray(value)) {
    const items = value.map((item: unknown, index) => compileTemplate(item, onProblem, [...path, index]));
    return (inputs) => items.map((item) => item(inputs)).filter((item) => item !== undefined);
  }
  if (typeof value !== "object" || value === null) {
    const literal = toCelValue(value);
    return () => literal;
  }
  const members = Object.entries(value).map(
    ([name, member]) => [name, compileTemplate(member, onProblem, [...path, name])] as const,
  );
  return (inputs) => {
    const map = new Map<string, unknown>();
    for (const [name, member] of members) {
      const resolved = member(inputs);
      if (resolved !== undefined) map.set(name, resolved);
    }
    return map;
  };
}

function compileText(text: string, onProblem: OnTemplateProblem, path: readonly (string | number)[]): Template {
  if (!text.startsWith("$")) return () => text;
  const rest = text.slice(1);
  if (rest.startsWith("$")) return () => rest;
  const compiled = compileExpression(rest, "mapping", "optional");
  if (!compiled.ok) {
    const { message, offset } = compiled.problem;
    onProblem({ message, offset: offset + 1, path });
    return () => undefined;
  }
  const { evaluate } = compiled.value;
  const { Optional } = celEngine();
  return (inputs) => {
    let result: unknown;
    try {
      result = evaluate(inputs);
    } catch (error) {
      throw new GatewayError("invalid_params", `the expression \`${text}\` failed: ${celErrorText(error)}`);
    }
    if (!(result instanceof Optional)) return result;
    return result.hasValue() ? (result.value() as CelValue) : undefined;
  };
}
