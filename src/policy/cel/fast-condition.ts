// Needed by bench policy: "ten rules on both phases", and by policy-cel: "a request by ten rules, the last decides".
import type { ASTNode } from "@marcbachmann/cel-js";

import { type CurrentEntry, entryName, entryUri } from "./facts.ts";
import { literalOf } from "./read-paths.ts";

type McpField =
  | "method"
  | "tool"
  | "resource"
  | "prompt"
  | "task"
  | "upstream"
  | "name"
  | "server"
  | "revision"
  | "direction"
  | "kind";

/** The values that fast conditions read: all bindings of a message, or only what is known beforehand. */
export interface FastFacts {
  readonly mcp: { readonly [Field in McpField]?: string } & { readonly arguments?: unknown; readonly params?: unknown };
  readonly principal: {
    readonly id: string;
    readonly kind: string;
    readonly scopes: ReadonlySet<string>;
    readonly claims: unknown;
  };
  readonly session?: { readonly id: string };
  readonly result?: unknown;
  readonly error?: unknown;
  readonly entry?: unknown;
  readonly currentEntry?: CurrentEntry | undefined;
}

/** A condition without the CEL engine: its value, or undefined if only the engine can tell. Never throws. */
export type FastCondition = (facts: FastFacts) => boolean | undefined;

/** A value without the CEL engine; undefined if only the engine can tell, as when a member is missing. */
type FastValue = (facts: FastFacts) => unknown;

/** Compiles a condition; undefined if it uses more than the fast subset of CEL. */
export function compileFastCondition(node: ASTNode): FastCondition | undefined {
  const value = compileValue(node);
  return (
    value &&
    ((facts) => {
      const found = value(facts);
      return typeof found === "boolean" ? found : undefined;
    })
  );
}

function compileValue(node: ASTNode): FastValue | undefined {
  switch (node.op) {
    case "&&":
      return compileLogical(node.args, false);
    case "||":
      return compileLogical(node.args, true);
    case "!_": {
      const inner = compileFastCondition(node.args);
      return inner && ((facts) => negate(inner(facts)));
    }
    case "==":
    case "!=":
    case "<":
    case "<=":
    case ">":
    case ">=": {
      const [left, right] = [compileValue(node.args[0]), compileValue(node.args[1])];
      const compare = comparisons[node.op];
      return left && right && ((facts) => compare(left(facts), right(facts)));
    }
    case "in":
      return compileMembership(node.args);
    case "call":
      return node.args[0] === "has" && node.args[1][0] !== undefined ? compileHas(node.args[1][0]) : undefined;
    case "rcall":
      return node.args[0] === "orValue" ? compileOrValue(node.args) : compileTextTest(node.args);
    default:
      return compileRead(node);
  }
}

/** In CEL one decisive side suffices, whatever the other is: false for `&&`, true for `||`. */
function compileLogical([left, right]: readonly [ASTNode, ASTNode], decisive: boolean): FastCondition | undefined {
  const [a, b] = [compileFastCondition(left), compileFastCondition(right)];
  const only = a ?? b;
  if (only === undefined) return undefined;
  if (a === undefined || b === undefined) return (facts) => (only(facts) === decisive ? decisive : undefined);
  return (facts) => {
    const first = a(facts);
    if (first === decisive) return decisive;
    const second = b(facts);
    if (second === decisive) return decisive;
    return first === undefined || second === undefined ? undefined : !decisive;
  };
}

type Compare = (a: unknown, b: unknown) => boolean | undefined;

const comparisons: Readonly<Record<"==" | "!=" | "<" | "<=" | ">" | ">=", Compare>> = {
  "==": isEqual,
  "!=": (a, b) => negate(isEqual(a, b)),
  "<": ordered((sign) => sign < 0),
  "<=": ordered((sign) => sign <= 0),
  ">": ordered((sign) => sign > 0),
  ">=": ordered((sign) => sign >= 0),
};

/** CEL orders strings, and numbers of either type. */
function ordered(test: (sign: number) => boolean): Compare {
  return (a, b) => {
    const isText = typeof a === "string" && typeof b === "string";
    return isText || (isNumber(a) && isNumber(b)) ? test(a < b ? -1 : a > b ? 1 : 0) : undefined;
  };
}

function negate(value: boolean | undefined): boolean | undefined {
  return value === undefined ? undefined : !value;
}

/** For scalars of one type only; CEL has its own rules for the rest. */
function isEqual(a: unknown, b: unknown): boolean | undefined {
  return isScalar(a) && typeof a === typeof b ? a === b : undefined;
}

function isNumber(value: unknown): value is number | bigint {
  return typeof value === "bigint" || typeof value === "number";
}

function isScalar(value: unknown): boolean {
  return typeof value === "string" || typeof value === "boolean" || isNumber(value);
}

function compileMembership([left, right]: readonly [ASTNode, ASTNode]): FastCondition | undefined {
  const value = compileValue(left);
  if (value === undefined) return undefined;
  const testString = (test: (text: string, facts: FastFacts) => boolean | undefined): FastCondition => {
    return (facts) => {
      const found = value(facts);
      return typeof found === "string" ? test(found, facts) : undefined;
    };
  };
  if (fieldName(right) === "principal.scopes") return testString((text, { principal }) => principal.scopes.has(text));
  const literals = right.op === "list" ? right.args.map(literalOf) : [];
  if (literals.length > 0 && literals.every((literal) => typeof literal === "string")) {
    const set = new Set(literals);
    return testString((text) => set.has(text));
  }
  const list = compileValue(right);
  return (
    list &&
    testString((text, facts) => {
      const found = list(facts);
      // CEL takes the type of a list from its first element.
      return Array.isArray(found) && typeof found[0] === "string" ? found.includes(text) : undefined;
    })
  );
}

const textTests: Readonly<Record<string, (text: string, part: string) => boolean>> = {
  startsWith: (text, part) => text.startsWith(part),
  endsWith: (text, part) => text.endsWith(part),
  contains: (text, part) => text.includes(part),
};

type CallArguments = readonly [name: string, receiver: ASTNode, args: readonly ASTNode[]];

function compileTextTest([name, receiver, args]: CallArguments): FastCondition | undefined {
  const test = Object.hasOwn(textTests, name) ? textTests[name] : undefined;
  const [argument] = args;
  if (test === undefined || argument === undefined || args.length > 1) return undefined;
  const [text, part] = [compileValue(receiver), compileValue(argument)];
  if (text === undefined || part === undefined) return undefined;
  return (facts) => {
    const [whole, piece] = [text(facts), part(facts)];
    return typeof whole === "string" && typeof piece === "string" ? test(whole, piece) : undefined;
  };
}

/** Fields that are always strings. */
const textFields: Readonly<Record<string, FastValue>> = {
  "mcp.method": ({ mcp }) => mcp.method,
  "mcp.tool": ({ mcp }) => mcp.tool,
  "mcp.resource": ({ mcp }) => mcp.resource,
  "mcp.prompt": ({ mcp }) => mcp.prompt,
  "mcp.task": ({ mcp }) => mcp.task,
  "mcp.upstream": ({ mcp }) => mcp.upstream,
  "mcp.name": ({ mcp }) => mcp.name,
  "mcp.server": ({ mcp }) => mcp.server,
  "mcp.revision": ({ mcp }) => mcp.revision,
  "mcp.direction": ({ mcp }) => mcp.direction,
  "mcp.kind": ({ mcp }) => mcp.kind,
  "principal.id": ({ principal }) => principal.id,
  "principal.kind": ({ principal }) => principal.kind,
  "session.id": ({ session }) => session?.id,
  "entry.kind": ({ currentEntry }) => currentEntry?.kind,
  "entry.name": ({ currentEntry }) => currentEntry && entryName(currentEntry),
  "entry.uri": ({ currentEntry }) => currentEntry && entryUri(currentEntry),
};

const jsonRoots: Readonly<Record<string, FastValue>> = {
  "mcp.arguments": ({ mcp }) => mcp.arguments,
  "mcp.params": ({ mcp }) => mcp.params,
  "principal.claims": ({ principal }) => principal.claims,
  result: ({ result }) => result,
  error: ({ error }) => error,
  entry: ({ entry }) => entry,
};

/** A literal, a field, or a path through JSON. */
function compileRead(node: ASTNode): FastValue | undefined {
  const literal = literalOf(node);
  if (literal !== undefined) return isScalar(literal) ? () => literal : undefined;
  const name = fieldName(node);
  if (name !== undefined && Object.hasOwn(textFields, name)) return textFields[name];
  const path = jsonPath(node);
  if (path === undefined || path.optionalFrom < path.steps.length) return undefined;
  const { root, steps } = path;
  return (facts) => {
    let at = root(facts);
    for (const step of steps) {
      if (!(at instanceof Map)) return undefined;
      at = at.get(step);
    }
    return at;
  };
}

/** `path.?to.?member.orValue(literal)`. */
function compileOrValue([, receiver, args]: CallArguments): FastValue | undefined {
  const [fallback, ...more] = args;
  const literal = fallback === undefined ? undefined : literalOf(fallback);
  const path = jsonPath(receiver);
  if (path === undefined || !isScalar(literal) || more.length > 0) return undefined;
  const { root, steps, optionalFrom } = path;
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

/** `has(path.to.member)`. */
function compileHas(node: ASTNode): FastCondition | undefined {
  const path = node.op === "." ? jsonPath(node) : undefined;
  if (path === undefined || path.optionalFrom < path.steps.length) return undefined;
  const { root, steps } = path;
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

interface JsonPath {
  readonly root: FastValue;
  readonly steps: readonly string[];
  /** The first optional step; the number of steps if none is. */
  readonly optionalFrom: number;
}

/** A path of at least one named step through JSON. */
function jsonPath(node: ASTNode): JsonPath | undefined {
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
    steps.push(at.args[1]);
    // Every step behind an optional one is optional too.
    if (at.op === ".?") optionals = steps.length;
    at = at.args[0];
  }
}

function fieldName(node: ASTNode): string | undefined {
  return node.op === "." && node.args[0].op === "id" ? `${node.args[0].args}.${node.args[1]}` : undefined;
}
