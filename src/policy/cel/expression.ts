import type { ASTNode, ParseResult } from "@marcbachmann/cel-js";

import { environmentOf, linearMatches, preparePattern } from "./environment.ts";
import { type Bindings, type ExpressionScope, variables } from "./facts.ts";
import { compileFastCondition, type FastFacts } from "./fast-condition.ts";
import type { CelMap } from "./json-value.ts";
import { formatMetered, needsMeter, withinBudget } from "./metering.ts";
import { type CompilePart, compileOutcomes, type OutcomeTest, type PossibleCall } from "./possible-outcomes.ts";
import { childrenOf, literalOf, type ReadPath, readPathsOf } from "./read-paths.ts";
import { type ReadNames, readNamesOf } from "./read-names.ts";

/** The type an expression must have: a condition, a rate limit key, JSON, or optional JSON. */
export type ExpressionType = "bool" | "key" | "value" | "optional";

/** The variables of the scope `mapping`. */
export interface MappingInputs {
  readonly params: CelMap;
  readonly token: CelMap;
}

/** A mistake in an expression, at an offset of its text. */
export interface ExpressionProblem {
  readonly message: string;
  readonly offset: number;
}

/** A compiled expression. */
export interface Expression {
  readonly text: string;
  /** The paths it reads. */
  readonly reads: readonly ReadPath[];
  /** The member names of `params` that it reads. */
  readonly names: ReadNames;
  /** Throws if CEL has no value for it. */
  readonly evaluate: (bindings: Bindings | MappingInputs | PossibleCall) => unknown;
}

/** A compiled condition. */
export interface CompiledCondition {
  readonly text: string;
  readonly reads: readonly ReadPath[];
  /** The member names of `params` that it reads. */
  readonly names: ReadNames;
  /** Throws if CEL has no value for it. */
  readonly test: (bindings: Bindings) => boolean;
  /** Evaluates with a part of the facts; undefined if they do not determine the value. */
  readonly evaluateStatically: (facts: FastFacts) => boolean | undefined;
  /** What it can come out as, for requests of which only caller, method and target are known. */
  readonly outcomes: OutcomeTest;
}

export type CompileResult<T> =
  | { readonly ok: true; readonly value: T }
  | { readonly ok: false; readonly problem: ExpressionProblem };

/** The first mistake in an expression, if any. */
export function checkExpression(
  text: string,
  scope: ExpressionScope,
  type: ExpressionType,
): ExpressionProblem | undefined {
  const compiled = compileExpression(text, scope, type);
  return compiled.ok ? undefined : compiled.problem;
}

/** Parses and type-checks an expression. */
export function compileExpression(
  text: string,
  scope: ExpressionScope,
  type: ExpressionType,
): CompileResult<Expression> {
  const parsed = parse(text, scope, type);
  if (!parsed.ok) return parsed;
  const { ast, run } = parsed.value;
  return { ok: true, value: { text, reads: readsOf(ast, scope), names: readNamesOf(ast), evaluate: run } };
}

/** Parses and type-checks a condition. */
export function compileCondition(text: string, scope: ExpressionScope): CompileResult<CompiledCondition> {
  const parsed = parse(text, scope, "bool");
  if (!parsed.ok) return parsed;
  const { ast, run } = parsed.value;
  const fast = compileFastCondition(ast);
  // Only lists need it, so that it is compiled when the first one comes.
  let outcomes: OutcomeTest | undefined;
  const compilePart: CompilePart = (node) => {
    const part = parseMetered(node, text, scope);
    return part.ok ? part.value.run : undefined;
  };
  const evaluate = (bindings: Bindings): boolean => {
    const value = run(bindings);
    if (typeof value !== "boolean") throw new TypeError(`the condition is ${typeof value}, not bool`);
    return value;
  };
  return {
    ok: true,
    value: {
      text,
      reads: readsOf(ast, scope),
      names: readNamesOf(ast),
      test: fast === undefined ? evaluate : (bindings) => fast(bindings) ?? evaluate(bindings),
      evaluateStatically: fast ?? (() => undefined),
      outcomes: (call) => (outcomes ??= compileOutcomes(ast, compilePart))(call),
    },
  };
}

function readsOf(ast: ASTNode, scope: ExpressionScope): readonly ReadPath[] {
  return readPathsOf(ast).filter(([variable = ""]) => Object.hasOwn(variables[scope], variable));
}

interface ParsedExpression {
  readonly ast: ASTNode;
  readonly run: (bindings: Bindings | MappingInputs | PossibleCall) => unknown;
}

function parse(text: string, scope: ExpressionScope, type: ExpressionType): CompileResult<ParsedExpression> {
  if (text.trim() === "") return failed("needs a CEL expression", 0);
  let program: ParseResult;
  try {
    program = environmentOf(scope).parse(text);
  } catch (error) {
    return failed(celErrorText(error), offsetOf(error));
  }
  const problem = replaceMatches(program.ast);
  if (problem !== undefined) return { ok: false, problem };
  const checked = program.check();
  if (!checked.valid) return failed(celErrorText(checked.error), offsetOf(checked.error));
  const found = checked.type ?? "dyn";
  const { accepts, expected } = expressionTypes[type];
  if (!accepts.test(found)) return failed(`is ${found}, expected ${expected}`, 0);
  return needsMeter(program.ast, linearMatches)
    ? parseMetered(program.ast, text, scope)
    : { ok: true, value: { ast: program.ast, run: (bindings): unknown => program(bindings) } };
}

/** The form of a checked expression that counts its steps. */
function parseMetered(ast: ASTNode, text: string, scope: ExpressionScope): CompileResult<ParsedExpression> {
  try {
    const metered = environmentOf(scope, "metered").parse(formatMetered(ast, text));
    const checked = metered.check();
    if (!checked.valid) return failed(celErrorText(checked.error), 0);
    return { ok: true, value: { ast, run: (bindings) => withinBudget<unknown>(bindings, () => metered(bindings)) } };
  } catch (error) {
    return failed(celErrorText(error), 0);
  }
}

const expressionTypes: Readonly<Record<ExpressionType, { readonly accepts: RegExp; readonly expected: string }>> = {
  bool: { accepts: /^(?:bool|dyn.*)$/u, expected: "bool" },
  key: { accepts: /^(?:string|int|uint|double|bool|dyn.*)$/u, expected: "a string or number" },
  value: { accepts: /^(?:string|int|double|bool|null|list.*|map.*|dyn.*)$/u, expected: "a JSON value" },
  optional: {
    accepts: /^(?:string|int|double|bool|null|list.*|map.*|dyn.*|optional.*)$/u,
    expected: "a JSON value",
  },
};

/**
 * Replaces CEL's `matches` by the linear one, and compiles the patterns. Patterns must be literals: one from a message
 * would have to be compiled each time, and could be of any size.
 */
function replaceMatches(node: ASTNode): ExpressionProblem | undefined {
  if (node.op === "rcall" && node.args[0] === "matches") {
    const [pattern, ...rest] = node.args[2];
    const text = pattern === undefined ? undefined : literalOf(pattern);
    if (pattern === undefined || rest.length > 0 || typeof text !== "string")
      return { message: "`matches` needs one literal pattern", offset: pattern?.start ?? node.pos };
    const problem = preparePattern(text);
    if (problem !== undefined) return { message: `is not a pattern: ${problem}`, offset: pattern.start };
    node.args[0] = linearMatches;
  }
  for (const { child } of childrenOf(node)) {
    const problem = replaceMatches(child);
    if (problem !== undefined) return problem;
  }
  return undefined;
}

interface CelError {
  readonly summary?: unknown;
  readonly range?: { readonly start?: unknown } | undefined;
}

/** The message of a CEL error, without its source excerpt. */
export function celErrorText(error: unknown): string {
  const { summary } = Object(error) as CelError;
  if (typeof summary === "string") return summary.charAt(0).toLowerCase() + summary.slice(1);
  return error instanceof Error ? error.message : String(error);
}

function offsetOf(error: unknown): number {
  const { range } = Object(error) as CelError;
  return typeof range?.start === "number" ? range.start : 0;
}

function failed(message: string, offset: number): { readonly ok: false; readonly problem: ExpressionProblem } {
  return { ok: false, problem: { message, offset } };
}
