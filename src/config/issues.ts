import type * as z from "zod";

import { alternativesOf, schemasAt } from "./json-schema.ts";
import { isObject } from "../lib/is-object.ts";
import { closestName } from "../lib/closest-name.ts";

type Issue = z.core.$ZodIssue;

/** A schema issue with its full path, in the matching branch of each union. */
export interface LocatedIssue {
  readonly issue: Issue;
  readonly path: Path;
}

/** The message of a schema issue; a schema with a message of its own keeps it. */
export function describeIssue(issue: z.core.$ZodRawIssue): string | undefined {
  switch (issue.code) {
    case "invalid_type": {
      const expected = typeNames[issue.expected] ?? issue.expected;
      if (issue.input === undefined) return `is missing: expected ${expected}`;
      const unquoted = issue.expected === "string" && ["number", "boolean"].includes(typeof issue.input);
      return `expected ${expected}, found ${typeName(issue.input)}${unquoted ? "; put it in quotes" : ""}`;
    }
    case "invalid_value": {
      const values = issue.values.map((value) => `\`${String(value)}\``);
      const expected = values.length === 1 ? values.join("") : `one of ${values.join(", ")}`;
      if (issue.input === undefined) return `is missing: expected ${expected}`;
      const meant = typeof issue.input === "string" ? closestName(issue.input, issue.values.map(String)) : undefined;
      return `expected ${expected}${meant === undefined ? "" : `; did you mean \`${meant}\`?`}`;
    }
    case "too_small":
      if (issue.origin === "string" && issue.minimum === 1) return "must not be empty";
      return `must be at least ${issue.minimum}`;
    case "too_big":
      return `must be at most ${issue.maximum}`;
    default:
      return undefined;
  }
}

/** Issues with their full paths. */
export function locateIssues(issues: readonly Issue[], above: Path = []): readonly LocatedIssue[] {
  return issues.flatMap((issue) => {
    // Configuration keys are strings.
    const path = [...above, ...issue.path.map((step) => (typeof step === "symbol" ? String(step) : step))];
    const branch = issue.code === "invalid_union" ? chooseBranch(issue.errors) : undefined;
    return branch === undefined ? [{ issue, path }] : locateIssues(branch, path);
  });
}

/** Findings for the user: one per unknown key, and none for a key that is only missing because it is misspelt. */
export function toFindings(issues: readonly LocatedIssue[], tree: unknown): readonly ConfigFinding[] {
  const findings = issues.flatMap((placed) => findingsOf(placed, tree));
  const misspelt = new Set(
    findings.flatMap(({ path, meant }) => (meant === undefined ? [] : [formatPath([...path, meant])])),
  );
  return findings
    .filter(({ path }) => !misspelt.has(formatPath(path)) || valueAt(tree, path) !== undefined)
    .map(({ path, key, message, offset }) => ({
      path,
      message,
      ...(key === undefined ? {} : { key }),
      ...(offset === undefined ? {} : { offset }),
    }));
}

interface GuessedFinding extends ConfigFinding {
  /** The key that was probably meant. */
  readonly meant?: string;
}

function findingsOf({ issue, path }: LocatedIssue, tree: unknown): readonly GuessedFinding[] {
  switch (issue.code) {
    case "unrecognized_keys":
      return issue.keys.map((key) => unknownKey(path, key, tree));
    case "invalid_key": {
      const key = String(path.at(-1) ?? "");
      const message = `\`${key}\` ${issue.issues[0]?.message ?? "is not allowed here"}`;
      return [{ path: path.slice(0, -1), key, message }];
    }
    case "invalid_union": {
      // No alternative matches, perhaps because the discriminating key is misspelt.
      const value = valueAt(tree, path);
      const slips = Object.keys(isObject(value) ? value : {})
        .filter((key) => !knownKeys(path).includes(key))
        .map((key) => unknownKey(path, key, tree))
        .filter(({ meant }) => meant !== undefined);
      return slips.length > 0 ? slips : [{ path, message: issue.message }];
    }
    default: {
      // A check of a string may say at which character it failed.
      const offset: unknown = issue.code === "custom" ? issue.params?.["offset"] : undefined;
      return [{ path, message: issue.message, ...(typeof offset === "number" ? { offset } : {}) }];
    }
  }
}

function unknownKey(path: Path, key: string, tree: unknown): GuessedFinding {
  const renamed = newPathOf(path, key);
  if (renamed !== undefined) return { path, key, message: describeRename(path, key, renamed) };
  const present = valueAt(tree, path);
  const meant = closestName(
    key,
    knownKeys(path).filter((known) => !isObject(present) || !Object.hasOwn(present, known)),
  );
  const hint = meant === undefined ? "" : `; did you mean \`${meant}\`?`;
  return { path, key, message: `unknown key \`${key}\`${hint}`, ...(meant === undefined ? {} : { meant }) };
}

/** The issues of the only alternative that has the right type and all required keys; undefined if none or several do. */
function chooseBranch(branches: readonly (readonly Issue[])[]): readonly Issue[] | undefined {
  const meant = branches.filter((issues) =>
    issues.every(({ code, path, input }) =>
      path.length === 0 ? code === "unrecognized_keys" : path.length > 1 || input !== undefined,
    ),
  );
  return meant.length === 1 ? meant[0] : undefined;
}

/** The keys of an object at a path, of all alternatives. */
function knownKeys(path: Path): readonly string[] {
  return schemasAt(path)
    .flatMap(alternativesOf)
    .flatMap(({ properties = {} }) => Object.keys(properties));
}

const typeNames: Readonly<Record<string, string>> = {
  string: "a string",
  number: "a number",
  int: "an integer",
  boolean: "`true` or `false`",
  object: "an object",
  record: "an object",
  array: "a list",
};

function typeName(value: unknown): string {
  if (value === null) return "null";
  if (Array.isArray(value)) return "a list";
  if (typeof value === "number") return Number.isInteger(value) ? "an integer" : "a fraction";
  return typeNames[typeof value] ?? typeof value;
}

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

/**
 * Keys that have another name now, by the path under which they used to be written. A route's own settings are listed
 * without `routes.<name>`, a name chosen by the user is `*`, and a list index is left out. Old names are refused, and
 * the error says the new one.
 */
export const renamedKeys: Readonly<Record<string, string>> = {
  "auth.authenticators.*.introspection.cache": "auth.authenticators.*.introspection.cacheMaxAge",
  "auth.authenticators.*.introspection.concurrent": "auth.authenticators.*.introspection.maxConcurrent",
  "auth.authenticators.*.introspection.remember": "auth.authenticators.*.introspection.cacheEntries",
  "auth.authenticators.*.jwt.remember": "auth.authenticators.*.jwt.cacheEntries",
  "limits.concurrentRequests": "limits.requests",
  "limits.parked": "limits.suspendedCalls",
  "limits.parkedPerPrincipal": "limits.suspendedCallsPerPrincipal",
  "limits.perPrincipalRequests": "limits.requestsPerPrincipal",
  "limits.rates": "rates",
  "listen.cors": "cors",
  "sessions.age": "sessions.maxAge",
  "sessions.idle": "sessions.idleTimeout",
  "policy.authzen.cache.seconds": "policy.authzen.cache.ttl",
  "policy.authzen.retryPause": "policy.authzen.retryBackoff",
  "policy.denialStatus": "policy.refusalStatus",
  "policy.pingAuthorize.maxRetries": "policy.pingAuthorize.retries",
  "record.retention.days": "record.retention.maxAge",
  "record.retention.bytes": "record.retention.maxBytes",
};

/** The new path of a key that was renamed; undefined for a key that never existed. */
export function newPathOf(path: Path, key: string, table = renamedKeys): string | undefined {
  const steps = path[0] === "routes" ? path.slice(2) : path;
  const written = [...steps.filter((step) => typeof step === "string"), key];
  const row = Object.entries(table).find(([old]) => matches(old.split("."), written));
  return row?.[1];
}

/** What to say about a renamed key: both paths where it moved, only the names where it did not. */
export function describeRename(path: Path, key: string, newPath: string): string {
  const parents = (steps: Path): string => steps.filter((step) => typeof step === "string").join(".");
  const own = parents(path[0] === "routes" ? path.slice(2) : path);
  const target = newPath.split(".");
  const newKey = target.pop() ?? "";
  return target.length === own.split(".").filter((step) => step !== "").length && newKey !== key
    ? `\`${key}\` is now called \`${newKey}\``
    : `\`${own}.${key}\` is now \`${newPath}\``;
}

function matches(old: readonly string[], written: readonly string[]): boolean {
  return old.length === written.length && old.every((step, index) => step === "*" || step === written[index]);
}
