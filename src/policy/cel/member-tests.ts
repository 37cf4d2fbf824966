import type { ASTNode } from "@marcbachmann/cel-js";

import { environmentOf, hasMatch, preparePattern } from "./environment.ts";
import type { ExpressionScope } from "./facts.ts";
import { childrenOf, isMacroCall, literalOf } from "./read-paths.ts";

/** A place where an expression reads a member of a variable, and the text that it compares that with, if there is one. */
export interface MemberTest {
  /** The variable and its member, such as `principal.id`. */
  readonly member: string;
  /** Its position in the expression. */
  readonly offset: number;
  /** Undefined where nothing is known about the other side. */
  readonly compared: ComparedText | undefined;
}

/** A string that an id or a name is compared with. */
export interface ComparedText {
  readonly text: string;
  readonly accepts: (value: string) => boolean;
  /** The prefix of everything that it accepts; the whole string if `isWhole`. */
  readonly start: string;
  readonly isWhole: boolean;
}

/** What a node evaluates to: one of some strings, or a member of a variable. */
type Known = { readonly texts: readonly Literal[] } | { readonly member: string };
type Variables = ReadonlyMap<string, Known | undefined>;

interface Literal {
  readonly text: string;
  readonly offset: number;
}

/** How a checked expression tests the members of its variables: `principal.id`, `mcp.method`. */
export function memberTestsOf(text: string, scope: ExpressionScope): readonly MemberTest[] {
  const found: MemberTest[] = [];
  visit(environmentOf(scope).parse(text).ast, new Map(), found);
  return found;
}

function visit(node: ASTNode, variables: Variables, found: MemberTest[]): void {
  const own = memberOf(node, variables);
  if (own !== undefined) found.push({ member: own, offset: node.start, compared: undefined });
  collect(node, variables, found);
  for (const { child, variable } of childrenOf(node)) {
    const inner = variable === undefined ? variables : new Map(variables).set(variable, boundBy(node, variables));
    visit(child, inner, found);
  }
}

/** What a node binds its variable to: the elements of a list, or the value of `cel.bind`. */
function boundBy(node: ASTNode, variables: Variables): Known | undefined {
  if (node.op !== "rcall") return undefined;
  const [, receiver, [, value]] = node.args;
  if (isMacroCall(node)) return { texts: elementsOf(receiver, variables) };
  return value === undefined ? undefined : resolve(value, variables);
}

type Comparison = (text: string) => ComparedText;

/** Adds what a node itself compares. */
function collect(node: ASTNode, variables: Variables, found: MemberTest[]): void {
  const add = (subject: ASTNode, literals: readonly Literal[], compare: Comparison): void => {
    const known = resolve(subject, variables);
    if (known === undefined || !("member" in known)) return;
    for (const { text, offset } of literals) found.push({ member: known.member, offset, compared: compare(text) });
  };
  switch (node.op) {
    case "==":
    case "!=": {
      const [left, right] = node.args;
      add(left, textsOf(right, variables), exactly);
      add(right, textsOf(left, variables), exactly);
      break;
    }
    case "in":
      add(node.args[0], elementsOf(node.args[1], variables), exactly);
      break;
    case "[]":
    case "[?]":
      add(node.args[1], elementsOf(node.args[0], variables), exactly);
      break;
    case "rcall": {
      const [name, receiver, [argument]] = node.args;
      const compare = Object.hasOwn(comparisons, name) ? comparisons[name] : undefined;
      if (compare !== undefined && argument !== undefined) add(receiver, textsOf(argument, variables), compare);
      break;
    }
    default:
  }
}

const exactly: Comparison = (text) => ({ text, accepts: (value) => value === text, start: text, isWhole: true });

const comparisons: Readonly<Record<string, Comparison>> = {
  startsWith: (text) => ({ text, accepts: (value) => value.startsWith(text), start: text, isWhole: false }),
  endsWith: (text) => ({ text, accepts: (value) => value.endsWith(text), start: "", isWhole: false }),
  contains: (text) => ({ text, accepts: (value) => value.includes(text), start: "", isWhole: false }),
  matches: (text) => {
    preparePattern(text);
    return { text, accepts: (value) => hasMatch(value, text), ...patternStart(text) };
  },
};

/** The literal text that a pattern begins with; empty where it is not anchored, or offers a choice. */
function patternStart(pattern: string): Pick<ComparedText, "start" | "isWhole"> {
  const { literal = "", rest = "" } = anchored.exec(pattern)?.groups ?? {};
  const outsideGroups = pattern.replaceAll(/\\.|\[[^\]]*\]/gsu, "").replaceAll(/\([^()]*\)/gu, "");
  if (/[(|]/u.test(outsideGroups)) return { start: "", isWhole: false };
  // A quantifier is about the character before it.
  const certain = /^[*?{]/u.test(rest) ? literal.replace(/\\?.$/su, "") : literal;
  return { start: certain.replaceAll(/\\(?<mark>.)/gsu, "$<mark>"), isWhole: rest === "$" };
}

const anchored = /^\^(?<literal>(?:[^$()*+.?[\\\]^{|}]|\\[^\w\s])*)(?<rest>.*)$/su;

/** The path of a member of a variable that the expression does not define itself. */
function memberOf(node: ASTNode, variables: Variables): string | undefined {
  if (node.op !== "." && node.op !== "[]") return undefined;
  const [base, key] = node.args;
  if (base.op !== "id" || variables.has(base.args)) return undefined;
  const name = typeof key === "string" ? key : literalOf(key);
  return typeof name === "string" ? `${base.args}.${name}` : undefined;
}

function resolve(node: ASTNode, variables: Variables): Known | undefined {
  const member = memberOf(node, variables);
  if (member !== undefined) return { member };
  if (node.op === "id") return variables.get(node.args);
  const texts = textsOf(node, variables);
  return texts.length === 0 ? undefined : { texts };
}

/** The strings that a node can evaluate to, if they are literals in the expression. */
function textsOf(node: ASTNode, variables: Variables): readonly Literal[] {
  switch (node.op) {
    case "value":
      return typeof node.args === "string" ? [{ text: node.args, offset: node.start }] : [];
    case "id": {
      const known = variables.get(node.args);
      return known !== undefined && "texts" in known ? known.texts : [];
    }
    case "+": {
      const [left, right] = node.args.map((part) => textsOf(part, variables));
      return (left ?? []).flatMap(({ text, offset }) =>
        (right ?? []).map((other) => ({ text: text + other.text, offset })),
      );
    }
    case "?:":
      return [...textsOf(node.args[1], variables), ...textsOf(node.args[2], variables)];
    default:
      return [];
  }
}

/** The elements of a list or the keys of a map that are written in the expression. */
function elementsOf(node: ASTNode, variables: Variables): readonly Literal[] {
  if (node.op === "list") return node.args.flatMap((element) => textsOf(element, variables));
  if (node.op === "map") return node.args.flatMap(([key]) => textsOf(key, variables));
  return node.op === "+" ? node.args.flatMap((part) => elementsOf(part, variables)) : textsOf(node, variables);
}
