import type { ASTNode, ParseResult } from "@marcbachmann/cel-js";

import { environmentOf, linearMatches, preparePattern } from "./environment.ts";
import type { Bindings } from "./facts.ts";
import type { CelValue } from "./json-value.ts";
import { childrenOf, literalOf, type ReadPath, readPathsOf } from "./read-paths.ts";
import { compileFastCondition, type FastCondition, type FastFacts } from "./fast-condition.ts";
import { type ExpressionScope, variables } from "./scope.ts";

/** What an expression must give: a condition, something to tell buckets apart by, any JSON, or any JSON or nothing. */
export type ExpressionType = "bool" | "key" | "value" | "optional";

/** What expressions of the scope `mapping` are evaluated against. */
export interface MappingInputs {
  readonly params: ReadonlyMap<string, CelValue>;
  readonly token: ReadonlyMap<string, CelValue>;
}

/** What is wrong with an expression, and at which offset of its text. */
export interface ExpressionProblem {
  readonly message: string;
  readonly offset: number;
}

/** An expression that was checked. */
export interface Expression {
  readonly text: string;
  /** What it looks at. */
  readonly reads: readonly ReadPath[];
  /** Its value; throws where CEL has none. */
  readonly evaluate: (bindings: Bindings | MappingInputs) => unknown;
}

/** A condition that was checked. */
export interface CompiledCondition {
  readonly text: string;
  readonly reads: readonly ReadPath[];
  /** Whether it holds; throws where CEL has no answer. */
  readonly test: (bindings: Bindings) => boolean;
  /** The same from less than all facts; undefined where they do not suffice, whatever the others are. */
  readonly evaluateStatically: (facts: FastFacts) => boolean | undefined;
}

export type CompileResult<T> =
  | { readonly ok: true; readonly value: T }
  | { readonly ok: false; readonly problem: ExpressionProblem };

/** What is wrong with an expression, if anything. */
export function checkExpression(
  text: string,
  scope: ExpressionScope,
  wanted: ExpressionType,
): ExpressionProblem | undefined {
  const compiled = compileExpression(text, scope, wanted);
  return compiled.ok ? undefined : compiled.problem;
}

/** Parses and type-checks an expression. */
export function compileExpression(
  text: string,
  scope: ExpressionScope,
  wanted: ExpressionType,
): CompileResult<Expression> {
  const parsed = parsedIn(text, scope, wanted);
  if (!parsed.ok) return parsed;
  const program = parsed.value;
  const reads = readsOf(program.ast, scope);
  return { ok: true, value: { text, reads, evaluate: (bindings): unknown => program(bindings) } };
}

/** Parses and type-checks a condition. */
export function compileCondition(text: string, scope: ExpressionScope): CompileResult<CompiledCondition> {
  const parsed = parsedIn(text, scope, "bool");
  if (!parsed.ok) return parsed;
  const program = parsed.value;
  const quick = compileFastCondition(program.ast);
  return {
    ok: true,
    value: {
      text,
      reads: readsOf(program.ast, scope),
      test: testOf(program, quick),
      evaluateStatically: quick ?? cannotTell,
    },
  };
}

function cannotTell(): undefined {
  return undefined;
}

function testOf(program: ParseResult, quick: FastCondition | undefined): CompiledCondition["test"] {
  const whole = (bindings: Bindings): boolean => {
    const value: unknown = program(bindings);
    if (typeof value !== "boolean") throw new TypeError(`a condition gave ${typeof value}`);
    return value;
  };
  return quick === undefined ? whole : (bindings) => quick(bindings) ?? whole(bindings);
}

function readsOf(ast: ASTNode, scope: ExpressionScope): readonly ReadPath[] {
  return readPathsOf(ast).filter(([variable = ""]) => Object.hasOwn(variables[scope], variable));
}

function parsedIn(text: string, scope: ExpressionScope, wanted: ExpressionType): CompileResult<ParseResult> {
  if (text.trim() === "") return compileError("needs a CEL expression", 0);
  let program: ParseResult;
  try {
    program = environmentOf(scope).parse(text);
  } catch (error) {
    return compileError(celErrorText(error), offsetOf(error));
  }
  const pattern = prepareMatches(program.ast);
  if (pattern !== undefined) return { ok: false, problem: pattern };
  const checked = program.check();
  if (!checked.valid) return compileError(celErrorText(checked.error), offsetOf(checked.error));
  const type = checked.type ?? "dyn";
  if (!accepted[wanted].test(type)) return compileError(`gives ${type}, ${expectations[wanted]} is needed`, 0);
  return { ok: true, value: program };
}

const accepted: Readonly<Record<ExpressionType, RegExp>> = {
  bool: /^(?:bool|dyn.*)$/u,
  key: /^(?:string|int|uint|double|bool|dyn.*)$/u,
  value: /^(?:string|int|double|bool|null|list.*|map.*|dyn.*)$/u,
  optional: /^(?:string|int|double|bool|null|list.*|map.*|dyn.*|optional.*)$/u,
};

const expectations: Readonly<Record<ExpressionType, string>> = {
  bool: "a condition",
  key: "a text or number",
  value: "a JSON value",
  optional: "a JSON value",
};

/**
 * Puts the linear engine in the place of CEL's `matches`, and compiles the patterns. They must be written out: one that
 * comes with a message would be compiled for each, and could be of any size.
 */
function prepareMatches(node: ASTNode): ExpressionProblem | undefined {
  if (node.op === "rcall" && node.args[0] === "matches") {
    const [pattern, ...rest] = node.args[2];
    const text = pattern === undefined ? undefined : literalOf(pattern);
    if (pattern === undefined || rest.length > 0 || typeof text !== "string") {
      return { message: "`matches` needs one pattern, written out", offset: pattern?.start ?? node.pos };
    }
    const problem = preparePattern(text);
    if (problem !== undefined) return { message: `is no pattern: ${problem}`, offset: pattern.start };
    node.args[0] = linearMatches;
  }
  for (const { child } of childrenOf(node)) {
    const problem = prepareMatches(child);
    if (problem !== undefined) return problem;
  }
  return undefined;
}

interface CelError {
  readonly summary?: unknown;
  readonly range?: { readonly start?: unknown } | undefined;
}

/** What CEL says of a mistake or a failure, without the picture it draws. */
export function celErrorText(error: unknown): string {
  const { summary } = (typeof error === "object" && error !== null ? error : {}) as CelError;
  if (typeof summary === "string") return summary.charAt(0).toLowerCase() + summary.slice(1);
  return error instanceof Error ? error.message : String(error);
}

function offsetOf(error: unknown): number {
  const { range } = (typeof error === "object" && error !== null ? error : {}) as CelError;
  return typeof range?.start === "number" ? range.start : 0;
}

function compileError(message: string, offset: number): { readonly ok: false; readonly problem: ExpressionProblem } {
  return { ok: false, problem: { message, offset } };
}
