import type { ASTNode } from "@marcbachmann/cel-js";

import { entryName, entryUri, type CurrentEntry } from "./facts.ts";
import { literalOf } from "./paths.ts";

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
export function compileFastValue(node: ASTNode): FastValue | undefined {
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
export function compileOptionalValue(node: ASTNode): FastValue | undefined {
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
export function compilePresence(node: ASTNode): ((facts: FastFacts) => boolean | undefined) | undefined {
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
export function isScopesField(node: ASTNode): boolean {
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
    typeof value === "string" ||
    typeof value === "boolean" ||
    typeof value === "bigint" ||
    typeof value === "number"
  );
}
