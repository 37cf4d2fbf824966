import type { ASTNode } from "@marcbachmann/cel-js";

import { literalOf } from "./read-paths.ts";
import { type CurrentEntry, entryName, entryUri } from "./facts.ts";

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
      return node.args[0] === "has" && node.args[1][0] !== undefined ? compilePresence(node.args[1][0]) : undefined;
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
function ordered(compare: (a: Ordered, b: Ordered) => boolean): (a: unknown, b: unknown) => boolean | undefined {
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

function textTest([name, receiver, args]: readonly [string, ASTNode, readonly ASTNode[]]): FastCondition | undefined {
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

/** What quick ways look at: the bindings of a message, or as much of them as is known before it came. */
export interface FastFacts {
  readonly mcp: {
    readonly method: string;
    readonly tool: string;
    readonly resource: string;
    readonly prompt: string;
    readonly task: string;
    readonly server: string | undefined;
    readonly revision: string | undefined;
    readonly direction: string | undefined;
    readonly kind: string | undefined;
    readonly arguments: unknown;
    readonly params: unknown;
  };
  readonly principal: {
    readonly id: string;
    readonly kind: string;
    readonly scopes: ReadonlySet<string>;
    readonly claims: unknown;
  };
  readonly session: { readonly id: string | undefined };
  readonly result: unknown;
  readonly error: unknown;
  readonly entry: unknown;
  readonly listed: CurrentEntry | undefined;
}

/** A value without the machinery of CEL; undefined where only CEL can tell, as when something is missing. */
export type FastValue = (facts: FastFacts) => unknown;

/** Fields that are always there and always texts, once the message is. */
const textFields: Readonly<Record<string, FastValue>> = {
  "mcp.method": ({ mcp }) => mcp.method,
  "mcp.tool": ({ mcp }) => mcp.tool,
  "mcp.resource": ({ mcp }) => mcp.resource,
  "mcp.prompt": ({ mcp }) => mcp.prompt,
  "mcp.task": ({ mcp }) => mcp.task,
  "mcp.server": ({ mcp }) => mcp.server,
  "mcp.revision": ({ mcp }) => mcp.revision,
  "mcp.direction": ({ mcp }) => mcp.direction,
  "mcp.kind": ({ mcp }) => mcp.kind,
  "principal.id": ({ principal }) => principal.id,
  "principal.kind": ({ principal }) => principal.kind,
  "session.id": ({ session }) => session.id,
  "entry.kind": ({ listed }) => listed?.kind,
  "entry.name": ({ listed }) => (listed === undefined ? undefined : entryName(listed)),
  "entry.uri": ({ listed }) => (listed === undefined ? undefined : entryUri(listed)),
};

/** What holds the JSON of others. */
const jsonRoots: Readonly<Record<string, FastValue>> = {
  "mcp.arguments": ({ mcp }) => mcp.arguments,
  "mcp.params": ({ mcp }) => mcp.params,
  "principal.claims": ({ principal }) => principal.claims,
  result: ({ result }) => result,
  error: ({ error }) => error,
  entry: ({ entry }) => entry,
};

/** The value of a literal, a field, or a path through JSON. */
function compileFastValue(node: ASTNode): FastValue | undefined {
  const literal = literalOf(node);
  if (literal !== undefined) return isScalar(literal) ? () => literal : undefined;
  const name = fieldName(node);
  if (name !== undefined && Object.hasOwn(textFields, name)) return textFields[name];
  const chain = chainOf(node);
  if (chain === undefined || chain.optionalFrom < chain.steps.length) return undefined;
  const { root, steps } = chain;
  return (facts) => {
    let at = root(facts);
    for (const step of steps) {
      if (!(at instanceof Map)) return undefined;
      at = at.get(step);
    }
    return at;
  };
}

/** The value of `path.?to.?it.orValue(literal)`. */
function compileOptionalValue(node: ASTNode): FastValue | undefined {
  if (node.op !== "rcall" || node.args[0] !== "orValue") return undefined;
  const [fallback, ...more] = node.args[2];
  const literal = fallback === undefined ? undefined : literalOf(fallback);
  const chain = chainOf(node.args[1]);
  if (chain === undefined || !isScalar(literal) || more.length > 0) return undefined;
  const { root, steps, optionalFrom } = chain;
  if (optionalFrom === steps.length) return undefined;
  return (facts) => {
    let at = root(facts);
    for (let index = 0; index < steps.length; index++) {
      if (!(at instanceof Map)) return undefined;
      at = at.get(steps[index]);
      if (at === undefined) return index < optionalFrom ? undefined : literal;
    }
    return at;
  };
}

/** Whether there is something at a path, as `has` says it. */
function compilePresence(node: ASTNode): ((facts: FastFacts) => boolean | undefined) | undefined {
  const chain = node.op === "." ? chainOf(node) : undefined;
  if (chain === undefined || chain.optionalFrom < chain.steps.length) return undefined;
  const { root, steps } = chain;
  return (facts) => {
    let at = root(facts);
    for (let index = 0; index < steps.length; index++) {
      if (!(at instanceof Map)) return undefined;
      if (index === steps.length - 1) return at.has(steps[index]);
      at = at.get(steps[index]);
    }
    return undefined;
  };
}

/** Whether a node is the scopes of the caller. */
function isScopesField(node: ASTNode): boolean {
  return fieldName(node) === "principal.scopes";
}

interface Chain {
  readonly root: FastValue;
  readonly steps: readonly string[];
  /** The first step that may be missing; behind the last one where none may. */
  readonly optionalFrom: number;
}

/** A path of at least one step through JSON, as long as every step is written out. */
function chainOf(node: ASTNode): Chain | undefined {
  const steps: string[] = [];
  let optionals = 0;
  let at = node;
  for (;;) {
    const name = at.op === "id" ? at.args : fieldName(at);
    const root = name !== undefined && Object.hasOwn(jsonRoots, name) ? jsonRoots[name] : undefined;
    if (root !== undefined) {
      if (steps.length === 0) return undefined;
      return { root, steps: steps.toReversed(), optionalFrom: steps.length - optionals };
    }
    if (at.op !== "." && at.op !== ".?") return undefined;
    // What follows a step that may be missing may be missing too.
    steps.push(at.args[1]);
    if (at.op === ".?") optionals = steps.length;
    at = at.args[0];
  }
}

function fieldName(node: ASTNode): string | undefined {
  return node.op === "." && node.args[0].op === "id" ? `${node.args[0].args}.${node.args[1]}` : undefined;
}

function isScalar(value: unknown): boolean {
  return (
    typeof value === "string" || typeof value === "boolean" || typeof value === "bigint" || typeof value === "number"
  );
}
