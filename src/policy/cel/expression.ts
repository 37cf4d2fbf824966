import type { ASTNode, ParseResult } from "@marcbachmann/cel-js";

import { environmentOf, linearMatches, preparePattern } from "./environment.ts";
import { type Bindings, celTypes, type ExpressionScope, variables } from "./facts.ts";
import type { CelMap } from "./json-value.ts";
import { formatMetered, needsMeter, withinBudget } from "./metering.ts";
import { type CompilePart, compileOutcomes, type OutcomeTest, type PossibleCall } from "./possible-outcomes.ts";
import { childrenOf, literalOf, type ReadPath, readPathsOf } from "./read-paths.ts";
import { type ReadNames, readNamesOf } from "./read-names.ts";
import { closestName } from "../../lib/closest-name.ts";
import { thrownMessage } from "../../lib/thrown-message.ts";

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
  /** The possible results, for requests of which only some facts are known. */
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
  // Compiled on first use.
  let outcomes: OutcomeTest | undefined;
  const compilePart: CompilePart = (node) => {
    const part = parseMetered(node, text, scope);
    return part.ok ? part.value.run : undefined;
  };
  return {
    ok: true,
    value: {
      text,
      reads: readsOf(ast, scope),
      names: readNamesOf(ast),
      test: (bindings) => {
        const value = run(bindings);
        if (typeof value !== "boolean") throw new TypeError(`the condition is ${typeof value}, not bool`);
        return value;
      },
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
    return failed(withHint(error, text, scope), offsetOf(error));
  }
  const problem = replaceMatches(program.ast);
  if (problem !== undefined) return { ok: false, problem };
  const checked = program.check();
  if (!checked.valid) return failed(withHint(checked.error, text, scope), offsetOf(checked.error));
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
    if (problem !== undefined)
      return { message: `is not a pattern: ${problem}${patternHint(text)}`, offset: pattern.start };
    node.args[0] = linearMatches;
  }
  for (const { child } of childrenOf(node)) {
    const problem = replaceMatches(child);
    if (problem !== undefined) return problem;
  }
  return undefined;
}

/** Patterns are RE2, which has neither of these, so that they take linear time. */
function patternHint(pattern: string): string {
  if (/\(\?<?[!=]/u.test(pattern))
    return "; there is no lookahead and no lookbehind: use two conditions, with `!` and `&&`";
  return /\\[1-9]/u.test(pattern) ? "; there are no back-references" : "";
}

interface CelError {
  readonly summary?: unknown;
  readonly range?: { readonly start?: unknown } | undefined;
}

/** The parser's token names, for its messages. */
const tokens: Readonly<Record<string, string>> = {
  EOF: "the end",
  LPAREN: "`(`",
  RPAREN: "`)`",
  LBRACKET: "`[`",
  RBRACKET: "`]`",
  LBRACE: "`{`",
  RBRACE: "`}`",
  COMMA: "`,`",
  COLON: "`:`",
  DOT: "`.`",
  QUESTION: "`?`",
  IDENTIFIER: "a name",
  STRING: "a text",
  NUMBER: "a number",
  AND: "`&&`",
  OR: "`||`",
  EQ: "`==`",
  NE: "`!=`",
  NOT: "`!`",
};

/** The message of a CEL error, without its source excerpt. */
export function celErrorText(error: unknown): string {
  const { summary } = Object(error) as CelError;
  if (typeof summary === "string")
    return (summary.charAt(0).toLowerCase() + summary.slice(1)).replaceAll(/\b[A-Z]{2,}\b/gu, (token) =>
      Object.hasOwn(tokens, token) ? (tokens[token] ?? token) : token,
    );
  return thrownMessage(error);
}

/** The message of a CEL error, with what to write instead. */
function withHint(error: unknown, text: string, scope: ExpressionScope): string {
  const message = celErrorText(error);
  const hint = hintFor(message, text, offsetOf(error), scope);
  return hint === undefined ? message : `${message}; ${hint}`;
}

function hintFor(message: string, text: string, offset: number, scope: ExpressionScope): string | undefined {
  const { variable, field, call } =
    /^(?:unknown variable: (?<variable>\w+)|no such key: (?<field>\w+)|found no matching overload for '(?<call>.*)')$/u.exec(
      message,
    )?.groups ?? {};
  if (variable !== undefined) return describeVariables(variable, scope);
  if (field !== undefined) {
    const owner = /(?<owner>\w+)\s*\??\.\s*$/u.exec(text.slice(0, offset))?.groups?.["owner"] ?? "";
    const fields = fieldsOf(owner, scope);
    const meant = closestName(field, fields);
    if (meant !== undefined) return `did you mean \`${owner}.${meant}\`?`;
    return fields.length === 0 ? undefined : `\`${owner}\` has ${fields.map((name) => `\`${name}\``).join(", ")}`;
  }
  if (call !== undefined) return describeCall(call);
  if (!message.startsWith("unexpected")) return undefined;
  if (text[offset] === "=") return "CEL compares with `==`";
  if (text[offset] === "&" || text[offset] === "|") return `write \`${text.charAt(offset).repeat(2)}\``;
  if (/[\u2018-\u201F]/u.test(text.charAt(offset))) return "use straight quotes";
  // The parser reports a word operator, or the token after it.
  const begin = offset - (/\w*$/u.exec(text.slice(0, offset))?.[0].length ?? 0);
  const before = /(?<word>\w+)\s+$/u.exec(text.slice(0, begin))?.groups?.["word"] ?? "";
  const here = /^\w+/u.exec(text.slice(begin))?.[0] ?? "";
  const word = [here, before].find((one) => Object.hasOwn(operators, one.toLowerCase())) ?? "";
  const operator = operators[word.toLowerCase()];
  return operator === undefined ? undefined : `write \`${operator}\` for \`${word}\``;
}

/** A variable that was meant, also where its name was left out: `tool` for `mcp.tool`. */
function describeVariables(name: string, scope: ExpressionScope): string {
  const known = Object.keys(variables[scope]);
  const paths = known.flatMap((owner) => fieldsOf(owner, scope).map((field) => ({ field, path: `${owner}.${field}` })));
  const owned = paths.filter(({ field }) => field === name).map(({ path }) => path);
  const meant = owned.length > 0 ? owned : [closestName(name, known)].filter((close) => close !== undefined);
  if (meant.length > 0) return `did you mean ${meant.map((path) => `\`${path}\``).join(" or ")}?`;
  return `expected ${known.map((variable) => `\`${variable}\``).join(", ")}`;
}

function fieldsOf(variable: string, scope: ExpressionScope): readonly string[] {
  const type = Object.hasOwn(variables[scope], variable) ? (variables[scope][variable] ?? "") : "";
  return Object.hasOwn(celTypes, type) ? Object.keys(celTypes[type as keyof typeof celTypes]) : [];
}

/** A suggestion for an unknown function, or one that is called in another form. */
function describeCall(call: string): string | undefined {
  const [, owner, name = ""] = /^(?:(?<owner>[^(]*)\.)?(?<name>\w+)\(/u.exec(call) ?? [];
  if (["has", "includes", "contains"].includes(name) && owner?.startsWith("list") === true)
    return "write `value in list`";
  if (owner === undefined && textMethods.has(name)) return `write \`text.${name}(…)\``;
  const meant = synonyms[name] ?? closestName(name, textMethods);
  return meant === undefined || meant === name ? undefined : `did you mean \`${meant}\`?`;
}

const operators: Readonly<Record<string, string>> = { and: "&&", or: "||", not: "!" };

const textMethods: ReadonlySet<string> = new Set(["startsWith", "endsWith", "contains", "matches"]);

const synonyms: Readonly<Record<string, string>> = {
  beginsWith: "startsWith",
  hasPrefix: "startsWith",
  hasSuffix: "endsWith",
  includes: "contains",
  regex: "matches",
  len: "size",
  length: "size",
};

function offsetOf(error: unknown): number {
  const { range } = Object(error) as CelError;
  return typeof range?.start === "number" ? range.start : 0;
}

function failed(message: string, offset: number): { readonly ok: false; readonly problem: ExpressionProblem } {
  return { ok: false, problem: { message, offset } };
}
