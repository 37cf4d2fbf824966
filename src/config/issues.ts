import type * as z from "zod";

import { alternativesOf, schemasAt } from "./json-schema.ts";
import { isObject } from "../lib/is-object.ts";
import { formatPath, valueAt, type ConfigFinding, type Path } from "./problem.ts";
import { describeRename, newPathOf } from "./renamed-keys.ts";
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
      const message = `\`${key}\` ${issue.issues[0]?.message ?? "cannot stand here"}`;
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
