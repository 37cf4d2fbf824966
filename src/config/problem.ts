import { isObject } from "../lib/is-object.ts";

/** The path of a value: object keys and list indexes. */
export type Path = readonly (string | number)[];

/** An error or a warning about a configuration, and its position. */
export interface Problem {
  /** The path as text; empty for the whole file. */
  readonly path: string;
  /** What was expected and what was found; contains no secrets. */
  readonly message: string;
  /** Line in the file, from 1. */
  readonly line?: number;
  /** Column in the file, from 1. */
  readonly column?: number;
}

/** A problem whose position in the file is not known yet. */
export interface ConfigFinding {
  readonly path: Path;
  readonly message: string;
  /** The key, if the finding is about a key rather than a value. */
  readonly key?: string;
  /** Index of the character in the text that the finding is about. */
  readonly offset?: number;
}

/** A path as text: `routes.files.upstream`, `routes["a.b"].args[0]`. */
export function formatPath(path: Path): string {
  return path
    .map((step, index) => {
      if (typeof step === "number") return `[${step}]`;
      if (!/^[\w$-]+$/u.test(step)) return `[${JSON.stringify(step)}]`;
      return index === 0 ? step : `.${step}`;
    })
    .join("");
}

/** A problem on one line: `file:line:column path: message`. */
export function formatProblem({ path, message, line, column }: Problem, file?: string): string {
  const place = [file, line, column].filter((part) => part !== undefined).join(":");
  const about = path === "" ? message : `${path}: ${message}`;
  return place === "" ? about : `${place} ${about}`;
}

/** The value at a path; undefined if there is none. */
export function valueAt(tree: unknown, path: Path): unknown {
  let value = tree;
  for (const step of path) {
    if (typeof value !== "object" || value === null || !Object.hasOwn(value, step)) return undefined;
    value = (value as Readonly<Record<string | number, unknown>>)[step];
  }
  return value;
}

/** A copy of the tree with another value at a path; only the objects along the path are copied. */
export function withValueAt(tree: unknown, path: Path, value: unknown): unknown {
  const [step, ...rest] = path;
  if (step === undefined) return value;
  const inner = withValueAt(valueAt(tree, [step]), rest, value);
  if (Array.isArray(tree)) return tree.map((item: unknown, index) => (index === step ? inner : item));
  return { ...(isObject(tree) ? tree : {}), [step]: inner };
}
