import { GatewayError } from "../../errors.ts";
import {
  compileExpression,
  celErrorText,
  type ExpressionProblem,
  type MappingInputs,
} from "../cel/expression.ts";
import { celEngine } from "../cel/engine.ts";
import { toCelValue, type CelValue } from "../cel/json-value.ts";

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

function compileText(
  text: string,
  onProblem: OnTemplateProblem,
  path: readonly (string | number)[],
): Template {
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
