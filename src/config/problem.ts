import { isObject } from "../lib/is-object.ts";

/** The way to a value: keys of objects and places in lists. */
export type Path = readonly (string | number)[];

/** What is wrong, or strange, in a configuration, and where. */
export interface Problem {
  /** The way to the value as people write it; empty at the top. */
  readonly path: string;
  /** What was expected and what was found; holds no secrets. */
  readonly message: string;
  /** Line in the file, from 1. */
  readonly line?: number;
  /** Column in the file, from 1. */
  readonly column?: number;
}

/** A problem before its place in the file is known. */
export interface ConfigFinding {
  readonly path: Path;
  readonly message: string;
  /** The key that the finding is about, where it is not the value but the key itself. */
  readonly key?: string;
  /** The character of a text that the finding is about, from 0. */
  readonly offset?: number;
}

/** A path as people write it: `routes.files.upstream`, `routes["a.b"].args[0]`. */
export function formatPath(path: Path): string {
  return path
    .map((step, index) => {
      if (typeof step === "number") return `[${step}]`;
      if (!/^[\w$-]+$/u.test(step)) return `[${JSON.stringify(step)}]`;
      return index === 0 ? step : `.${step}`;
    })
    .join("");
}

/** A problem on one line, after the name of its file as compilers do it. */
export function formatProblem({ path, message, line, column }: Problem, file?: string): string {
  const place = [file, line, column].filter((part) => part !== undefined).join(":");
  const about = path === "" ? message : `${path}: ${message}`;
  return place === "" ? about : `${place} ${about}`;
}

/** The value at a path, or undefined where it leads nowhere. */
export function valueAt(tree: unknown, path: Path): unknown {
  let value = tree;
  for (const step of path) {
    if (typeof value !== "object" || value === null || !Object.hasOwn(value, step)) return undefined;
    value = (value as Readonly<Record<string | number, unknown>>)[step];
  }
  return value;
}

/** The same tree with another value at a path; only the objects and lists on the way are copied. */
export function withValueAt(tree: unknown, path: Path, value: unknown): unknown {
  const [step, ...rest] = path;
  if (step === undefined) return value;
  const inner = withValueAt(valueAt(tree, [step]), rest, value);
  if (Array.isArray(tree)) return tree.map((item: unknown, index) => (index === step ? inner : item));
  return { ...(isObject(tree) ? tree : {}), [step]: inner };
}
