import type { ASTNode } from "@marcbachmann/cel-js";

import { anyStep, type NamePath } from "../../protocol/json/folded-names.ts";
import { childrenOf, literalOf } from "./read-paths.ts";

/** The member names of a message that an expression reads. */
export interface ReadNames {
  /** From `params` on. */
  readonly paths: readonly NamePath[];
  /** From `result` on. */
  readonly results: readonly NamePath[];
  /** Names that are read at places which only evaluation knows. */
  readonly anywhere: readonly string[];
}

export const noNames: ReadNames = { paths: [], results: [], anywhere: [] };

export function joinNames(parts: readonly ReadNames[]): ReadNames {
  return {
    paths: parts.flatMap(({ paths }) => paths),
    results: parts.flatMap(({ results }) => results),
    anywhere: parts.flatMap(({ anywhere }) => anywhere),
  };
}

/**
 * The names that an expression reads of `params` and `result`. Loop variables are followed, and keys that are computed may be any text
 * in the expression. Reads more than {@link readPathsOf}, which is about top-level members and explanations.
 */
export function readNamesOf(ast: ASTNode): ReadNames {
  const found: Found = { paths: [], anywhere: new Set(), keyed: [], texts: new Set() };
  resolve(ast, new Map(), found);
  const keyed = found.keyed.flatMap((base) => [...found.texts].map((text): NamePath => [...base, text]));
  const all = [...found.paths, ...keyed];
  return {
    paths: all.flatMap((path) => fromParams(path) ?? []),
    results: all.flatMap(([variable, ...rest]): readonly NamePath[] => (variable === "result" ? [rest] : [])),
    anywhere: [...found.anywhere],
  };
}

interface Found {
  readonly paths: NamePath[];
  readonly anywhere: Set<string>;
  /** Objects of which computed keys are read. */
  readonly keyed: NamePath[];
  readonly texts: Set<string>;
}

/** Where a value comes from: these places, some place in `params`, or elsewhere. */
type Origin = readonly NamePath[] | "unknown" | "elsewhere";
type Variables = ReadonlyMap<string, Origin>;

const loops: ReadonlySet<string> = new Set(["all", "exists", "exists_one", "map", "filter"]);
/** Methods that return their receiver, a part of it, or their argument. */
const passing: ReadonlySet<string> = new Set(["orValue", "or", "value"]);

function fromParams([variable, member, ...rest]: NamePath): readonly NamePath[] | undefined {
  if (variable === "params") return [member === undefined ? [] : [member, ...rest]];
  if (variable !== "mcp") return undefined;
  if (member === "arguments") return [["arguments", ...rest]];
  return member === "params" ? [rest] : undefined;
}

function resolve(node: ASTNode, variables: Variables, found: Found): Origin {
  switch (node.op) {
    case "value":
      if (typeof node.args === "string") found.texts.add(node.args);
      return "elsewhere";
    case "id":
      return variables.get(node.args) ?? [[node.args]];
    case ".":
    case ".?":
      return select(resolve(node.args[0], variables, found), node.args[1], found);
    case "[]":
    case "[?]": {
      const base = resolve(node.args[0], variables, found);
      const key = literalOf(node.args[1]);
      resolve(node.args[1], variables, found);
      if (typeof key === "string") return select(base, key, found);
      return typeof base === "string" ? base : elements(base, found);
    }
    case "in": {
      const [key, container] = node.args;
      resolve(key, variables, found);
      const base = resolve(container, variables, found);
      const text = literalOf(key);
      if (typeof text === "string") select(base, text, found);
      else if (typeof base !== "string") found.keyed.push(...base);
      return "elsewhere";
    }
    case "?:": {
      const [condition, yes, no] = node.args;
      resolve(condition, variables, found);
      return either(resolve(yes, variables, found), resolve(no, variables, found));
    }
    case "rcall":
      return resolveCall(node.args, variables, found);
    default:
      return mixed(childrenOf(node).map(({ child }) => resolve(child, variables, found)));
  }
}

function resolveCall(
  [name, receiver, args]: readonly [string, ASTNode, readonly ASTNode[]],
  variables: Variables,
  found: Found,
): Origin {
  const [first, ...rest] = args;
  if (first?.op === "id" && loops.has(name) && rest.length > 0) {
    const base = resolve(receiver, variables, found);
    const inner = new Map(variables).set(first.args, typeof base === "string" ? base : elements(base, found));
    const origins = rest.map((body) => resolve(body, inner, found));
    return name === "filter" ? base : mixed([base, ...origins]);
  }
  if (first?.op === "id" && name === "bind" && receiver.op === "id" && receiver.args === "cel") {
    const [value, body] = rest;
    const origin = value === undefined ? "elsewhere" : resolve(value, variables, found);
    return body === undefined ? origin : resolve(body, new Map(variables).set(first.args, origin), found);
  }
  const base = resolve(receiver, variables, found);
  const origins = args.map((arg) => resolve(arg, variables, found));
  return passing.has(name) ? origins.reduce(either, base) : mixed([base, ...origins]);
}

function select(base: Origin, name: string, found: Found): Origin {
  if (base === "unknown") found.anywhere.add(name);
  if (typeof base === "string") return base;
  const paths = base.map((path): NamePath => [...path, name]);
  found.paths.push(...paths);
  return paths;
}

/** The elements of lists, or the values of objects, whose keys may be texts of the expression. */
function elements(base: readonly NamePath[], found: Found): Origin {
  found.keyed.push(...base);
  return base.map((path): NamePath => [...path, anyStep]);
}

function either(one: Origin, other: Origin): Origin {
  if (one === "unknown" || other === "unknown") return "unknown";
  if (one === "elsewhere") return other;
  return other === "elsewhere" ? one : [...one, ...other];
}

/** The origin of a value that is made from others. */
function mixed(origins: readonly Origin[]): Origin {
  const isRead = (origin: Origin): boolean =>
    origin === "unknown" ||
    (typeof origin !== "string" &&
      origin.some((path) => fromParams(path) !== undefined || (path.length === 1 && path[0] === "mcp")));
  return origins.some(isRead) ? "unknown" : "elsewhere";
}
