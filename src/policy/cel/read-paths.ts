import type { ASTNode } from "@marcbachmann/cel-js";

import { NameSet } from "./json-value.ts";
import { jsonVariables, type NeededMembers, type JsonVariable } from "./scope.ts";

/** The way from a variable to what an expression looks at, such as `["mcp", "arguments", "amount"]`. */
export type ReadPath = readonly string[];

/**
 * The paths that an expression looks at, as far as it names them: `mcp.arguments[x]` is the path of all arguments.
 * More may be named than is looked at in the end, never less.
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

/** Which members of open JSON some paths need. */
export function neededMembers(paths: readonly ReadPath[]): NeededMembers {
  const needs = new Map<JsonVariable, Set<string> | "all">();
  for (const path of paths) {
    for (const open of jsonVariables) {
      const steps = open.split(".");
      if (!steps.every((step, index) => path[index] === step)) continue;
      const member = path[steps.length];
      const before = needs.get(open) ?? new Set<string>();
      needs.set(open, member === undefined || before === "all" ? "all" : before.add(member));
    }
    // Whoever looks at the whole of `mcp` or `principal` looks at what is open in it too.
    if (path.length === 1) {
      for (const open of jsonVariables) if (open.startsWith(`${path[0] ?? ""}.`)) needs.set(open, "all");
    }
  }
  return Object.fromEntries(Array.from(needs, ([open, names]) => [open, names === "all" ? names : new NameSet(names)]));
}

/** A path as explanations write it. */
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
    // An index may look at something itself.
    for (let inner: ASTNode | undefined = node; inner !== undefined; inner = below(inner)) {
      if (inner.op === "[]" || inner.op === "[?]") collect(inner.args[1], own, found);
    }
    return;
  }
  for (const { child, variable } of childrenOf(node)) {
    collect(child, variable === undefined ? own : new Set([...own, variable]), found);
  }
}

/** The path of a chain of accesses that begins at a variable of ours; it ends where an index is not written out. */
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

/** Whether a chain has an index in it that is not a text, behind which nothing more is known. */
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
  /** A name that the expression brings itself, which hides a variable of ours. */
  readonly variable?: string;
}

const macros: ReadonlySet<string> = new Set(["all", "exists", "exists_one", "map", "filter"]);

/** What stands directly inside a node. */
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
