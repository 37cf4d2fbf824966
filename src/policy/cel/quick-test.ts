import type { ASTNode } from "@marcbachmann/cel-js";

import { literalOf } from "./paths.ts";
import {
  compileOptionalValue,
  compilePresence,
  isScopesField,
  compileFastValue,
  type FastFacts,
  type FastValue,
} from "./quick-value.ts";

/**
 * A condition without the machinery of CEL: what CEL would say, or undefined where only CEL can tell, as when something
 * is missing or has another type. It never fails.
 */
export type FastCondition = (facts: FastFacts) => boolean | undefined;

/**
 * Finds a quick way to tell a condition; undefined where there is none. CEL's `&&` is false as soon as either side is,
 * whatever the other one does, and `||` true, so their order does not matter.
 */
export function compileFastCondition(node: ASTNode): FastCondition | undefined {
  switch (node.op) {
    case "&&":
      return joined(node.args, false);
    case "||":
      return joined(node.args, true);
    case "!_": {
      const inner = compileFastCondition(node.args);
      return inner && ((facts) => negated(inner(facts)));
    }
    case "==":
      return comparison(node.args, isEqual);
    case "!=":
      return comparison(node.args, (a, b) => negated(isEqual(a, b)));
    case "<":
      return comparison(
        node.args,
        ordered((a, b) => a < b),
      );
    case "<=":
      return comparison(
        node.args,
        ordered((a, b) => a <= b),
      );
    case ">":
      return comparison(
        node.args,
        ordered((a, b) => a > b),
      );
    case ">=":
      return comparison(
        node.args,
        ordered((a, b) => a >= b),
      );
    case "in":
      return membership(node.args);
    case "call":
      return node.args[0] === "has" && node.args[1][0] !== undefined
        ? compilePresence(node.args[1][0])
        : undefined;
    case "rcall":
      return textTest(node.args) ?? booleanValue(node);
    default:
      return booleanValue(node);
  }
}

function negated(value: boolean | undefined): boolean | undefined {
  return value === undefined ? undefined : !value;
}

/** Both sides of a logical operator, of which one value decides alone. */
function joined([left, right]: readonly [ASTNode, ASTNode], decisive: boolean): FastCondition | undefined {
  const [a, b] = [compileFastCondition(left), compileFastCondition(right)];
  const only = a ?? b;
  if (only === undefined) return undefined;
  if (a === undefined || b === undefined) {
    return (facts) => (only(facts) === decisive ? decisive : undefined);
  }
  return (facts) => {
    const first = a(facts);
    if (first === decisive) return decisive;
    const second = b(facts);
    if (second === decisive) return decisive;
    return first === undefined || second === undefined ? undefined : !decisive;
  };
}

/** A value that is a condition by itself. */
function booleanValue(node: ASTNode): FastCondition | undefined {
  const value = anyFastValue(node);
  return (
    value &&
    ((facts) => {
      const found = value(facts);
      return typeof found === "boolean" ? found : undefined;
    })
  );
}

function anyFastValue(node: ASTNode): FastValue | undefined {
  return compileFastValue(node) ?? compileOptionalValue(node);
}

function comparison(
  [left, right]: readonly [ASTNode, ASTNode],
  compare: (a: unknown, b: unknown) => boolean | undefined,
): FastCondition | undefined {
  const [a, b] = [anyFastValue(left), anyFastValue(right)];
  return a && b && ((facts) => compare(a(facts), b(facts)));
}

/** Values of one simple type; others CEL compares in ways of its own. */
function isEqual(a: unknown, b: unknown): boolean | undefined {
  const type = typeof a;
  const isSimple = type === "string" || type === "boolean" || type === "bigint" || type === "number";
  return isSimple && type === typeof b ? a === b : undefined;
}

/** An order of texts or of numbers; CEL has none between others. */
function ordered(
  compare: (a: Ordered, b: Ordered) => boolean,
): (a: unknown, b: unknown) => boolean | undefined {
  return (a, b) => {
    const isText = typeof a === "string" && typeof b === "string";
    return isText || (isNumber(a) && isNumber(b)) ? compare(a, b) : undefined;
  };
}

type Ordered = string | number | bigint;

function isNumber(value: unknown): value is number | bigint {
  return typeof value === "bigint" || typeof value === "number";
}

function membership([left, right]: readonly [ASTNode, ASTNode]): FastCondition | undefined {
  const value = anyFastValue(left);
  if (value === undefined) return undefined;
  if (isScopesField(right)) {
    return (facts) => {
      const found = value(facts);
      return typeof found === "string" ? facts.principal.scopes.has(found) : undefined;
    };
  }
  const literals = right.op === "list" ? right.args.map(literalOf) : [];
  if (literals.length > 0 && literals.every((literal) => typeof literal === "string")) {
    const set = new Set(literals);
    return (facts) => {
      const found = value(facts);
      return typeof found === "string" ? set.has(found) : undefined;
    };
  }
  const list = anyFastValue(right);
  return list && ((facts) => isIn(value(facts), list(facts)));
}

function isIn(value: unknown, list: unknown): boolean | undefined {
  if (typeof value !== "string" || !Array.isArray(list)) return undefined;
  // CEL goes by the first element to know of which type a list is.
  return typeof list[0] === "string" ? list.includes(value) : undefined;
}

function textTest([name, receiver, args]: readonly [string, ASTNode, readonly ASTNode[]]):
  | FastCondition
  | undefined {
  const test = Object.hasOwn(textTests, name) ? textTests[name] : undefined;
  const [argument] = args;
  if (test === undefined || argument === undefined || args.length > 1) return undefined;
  const [text, part] = [anyFastValue(receiver), anyFastValue(argument)];
  if (text === undefined || part === undefined) return undefined;
  return (facts) => {
    const [whole, piece] = [text(facts), part(facts)];
    return typeof whole === "string" && typeof piece === "string" ? test(whole, piece) : undefined;
  };
}

const textTests: Readonly<Record<string, (text: string, part: string) => boolean>> = {
  startsWith: (text, part) => text.startsWith(part),
  endsWith: (text, part) => text.endsWith(part),
  contains: (text, part) => text.includes(part),
};
