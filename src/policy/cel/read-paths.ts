import type { ASTNode } from "@marcbachmann/cel-js";

import { MemberNames } from "./json-value.ts";
import { type JsonVariable, jsonVariables, type NeededMembers } from "./facts.ts";

/** The path of a value that an expression reads, such as `["mcp", "arguments", "amount"]`. */
export type ReadPath = readonly string[];

/**
 * The paths that an expression may read, as far as they are literal: `mcp.arguments[x]` is the path of all arguments.
 */
export function readPathsOf(ast: ASTNode): readonly ReadPath[] {
  const found: ReadPath[] = [];
  collect(ast, new Set(), found);
  const seen = new Set<string>();
  return found.filter((path) => {
    const text = path.join("\0");
    return !seen.has(text) && seen.add(text);
  });
}

/** The members of JSON variables that some paths read. */
export function neededMembers(paths: readonly ReadPath[]): NeededMembers {
  const needs = new Map<JsonVariable, Set<string> | "all">();
  for (const path of paths) {
    for (const variable of jsonVariables) {
      const steps = variable.split(".");
      if (!steps.every((step, index) => path[index] === step)) continue;
      const member = path[steps.length];
      const before = needs.get(variable) ?? new Set<string>();
      needs.set(variable, member === undefined || before === "all" ? "all" : before.add(member));
    }
    // A read of all of `mcp` or `principal` includes their JSON.
    if (path.length === 1) {
      for (const variable of jsonVariables) if (variable.startsWith(`${path[0] ?? ""}.`)) needs.set(variable, "all");
    }
  }
  return Object.fromEntries(
    Array.from(needs, ([variable, names]) => [variable, names === "all" ? names : new MemberNames(names)]),
  );
}

/** Formats a path for explanations. */
export function formatReadPath(path: ReadPath): string {
  return path
    .map((step, index) =>
      index > 0 && /^[A-Z_a-z]\w*$/u.test(step) ? `.${step}` : index === 0 ? step : `[${JSON.stringify(step)}]`,
    )
    .join("");
}

function collect(node: ASTNode, own: ReadonlySet<string>, found: ReadPath[]): void {
  const path = pathOf(node, own);
  if (path !== undefined) {
    found.push(path);
    // An index may read something itself.
    for (let inner: ASTNode | undefined = node; inner !== undefined; inner = below(inner)) {
      if (inner.op === "[]" || inner.op === "[?]") collect(inner.args[1], own, found);
    }
    return;
  }
  for (const { child, variable } of childrenOf(node)) {
    collect(child, variable === undefined ? own : new Set([...own, variable]), found);
  }
}

/** The path of a chain of accesses from a variable; it ends at an index that is not a literal. */
function pathOf(node: ASTNode, own: ReadonlySet<string>): ReadPath | undefined {
  switch (node.op) {
    case "id":
      return own.has(node.args) ? undefined : [node.args];
    case ".":
    case ".?": {
      const before = pathOf(node.args[0], own);
      return before === undefined || isOpenEnded(node.args[0]) ? before : [...before, node.args[1]];
    }
    case "[]":
    case "[?]": {
      const before = pathOf(node.args[0], own);
      const index = node.args[1];
      if (before === undefined || isOpenEnded(node.args[0]) || typeof literalOf(index) !== "string") return before;
      return [...before, String(literalOf(index))];
    }
    default:
      return undefined;
  }
}

/** Whether a chain has an index that is not a literal string. */
function isOpenEnded(node: ASTNode): boolean {
  if ((node.op === "[]" || node.op === "[?]") && typeof literalOf(node.args[1]) !== "string") return true;
  const inner = below(node);
  return inner !== undefined && isOpenEnded(inner);
}

function below(node: ASTNode): ASTNode | undefined {
  return node.op === "." || node.op === ".?" || node.op === "[]" || node.op === "[?]" ? node.args[0] : undefined;
}

/** The value of a literal; undefined for anything else. */
export function literalOf(node: ASTNode): unknown {
  return node.op === "value" ? node.args : undefined;
}

interface Child {
  readonly child: ASTNode;
  /** A local variable, which shadows one of ours. */
  readonly variable?: string;
}

const macros: ReadonlySet<string> = new Set(["all", "exists", "exists_one", "map", "filter"]);

/** Whether a node iterates over a list or map. */
export function isMacroCall(node: ASTNode): boolean {
  return node.op === "rcall" && macros.has(node.args[0]) && node.args[2].length > 1 && node.args[2][0]?.op === "id";
}

/** The child nodes of a node. */
export function childrenOf(node: ASTNode): readonly Child[] {
  switch (node.op) {
    case "value":
    case "id":
      return [];
    case ".":
    case ".?":
      return [{ child: node.args[0] }];
    case "!_":
    case "-_":
      return [{ child: node.args }];
    case "call":
      return node.args[1].map((child) => ({ child }));
    case "rcall":
      return callChildren(node.args);
    case "list":
      return node.args.map((child) => ({ child }));
    case "map":
      return node.args.flatMap(([key, value]) => [{ child: key }, { child: value }]);
    default:
      return node.args.map((child: ASTNode) => ({ child }));
  }
}

function callChildren([name, receiver, args]: [string, ASTNode, ASTNode[]]): readonly Child[] {
  const [first, ...rest] = args;
  if (first?.op !== "id") return [receiver, ...args].map((child) => ({ child }));
  const variable = first.args;
  if (macros.has(name) && rest.length > 0) {
    return [{ child: receiver }, ...rest.map((child) => ({ child, variable }))];
  }
  if (name === "bind" && receiver.op === "id" && receiver.args === "cel" && rest.length === 2) {
    const [value, body] = rest;
    return [
      ...(value === undefined ? [] : [{ child: value }]),
      ...(body === undefined ? [] : [{ child: body, variable }]),
    ];
  }
  return [receiver, ...args].map((child) => ({ child }));
}
