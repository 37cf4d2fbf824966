import { withoutUndefined } from "../lib/without-undefined.ts";
import type * as z from "zod";

import { alternativesOf, formsOf, hasNames, knownKeys, requiredKeys, schemasAt } from "./json-schema.ts";
import { isObject } from "../lib/is-object.ts";
import { describeRename, newPathOf } from "./renamed-keys.ts";
import { closestName, meantValue, onlyPartOf } from "../lib/closest-name.ts";
import { hasTypographicQuotes, quotesHint } from "../lib/text/value-hints.ts";
import { upstreamFormError } from "../transports/config.ts";

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
      return `expected ${expected}, found ${typeName(issue.input)}${quotesHint([issue.expected], issue.input)}`;
    }
    case "invalid_union": {
      // The alternatives, if each is a single literal or type; objects are described by their keys.
      const branches = flatBranches(issue.errors).map(([only, ...more]) => (more.length === 0 ? only : undefined));
      const expected = branches.flatMap((only) => {
        if (only?.path.length !== 0) return [];
        if (only.code === "invalid_type") return [typeNames[only.expected] ?? only.expected];
        return only.code === "invalid_value" ? only.values.map((value) => `\`${String(value)}\``) : [];
      });
      if (expected.length < branches.length) return undefined;
      const types = branches.map((only) => (only?.code === "invalid_type" ? only.expected : ""));
      if (issue.input === undefined) return `is missing: expected ${expected.join(" or ")}`;
      return `expected ${expected.join(" or ")}, found ${typeName(issue.input)}${quotesHint(types, issue.input)}`;
    }
    case "invalid_value": {
      const values = issue.values.map((value) => `\`${String(value)}\``);
      const expected = values.length === 1 ? values.join("") : `one of ${values.join(", ")}`;
      if (issue.input === undefined) return `is missing: expected ${expected}`;
      const meant = typeof issue.input === "string" ? meantValue(issue.input, issue.values.map(String)) : undefined;
      const isQuoted = issue.values.some((value) => typeof value !== "string" && String(value) === issue.input);
      if (isQuoted) return `expected ${expected}; leave out the quotes`;
      return `expected ${expected}${meant === undefined ? "" : `; did you mean \`${meant}\`?`}`;
    }
    case "too_small":
      if (issue.minimum === 1 && issue.origin in unitNames) return "must not be empty";
      if (issue.inclusive === false) return `must be more than ${issue.minimum}`;
      return `must ${boundVerb(issue.origin)} at least ${issue.minimum}${unitNames[issue.origin] ?? ""}`;
    case "too_big":
      return `must ${boundVerb(issue.origin)} at most ${issue.maximum}${unitNames[issue.origin] ?? ""}`;
    default:
      return undefined;
  }
}

/** The alternatives of a union, and those of unions in it. */
function flatBranches(branches: readonly (readonly Issue[])[]): readonly (readonly Issue[])[] {
  return branches.flatMap((issues) => {
    const [only, ...more] = issues;
    return more.length === 0 && only?.code === "invalid_union" && only.path.length === 0
      ? flatBranches(only.errors)
      : [issues];
  });
}

/** The unit of a size, by the kind of value. */
const unitNames: Readonly<Record<string, string>> = { string: " characters", array: " entries" };

function boundVerb(origin: string): string {
  return origin in unitNames ? "have" : "be";
}

/** Issues with their full paths. */
export function locateIssues(issues: readonly Issue[], above: Path = []): readonly LocatedIssue[] {
  return issues.flatMap((issue) => {
    // Configuration keys are strings.
    const path = [...above, ...issue.path.map((step) => (typeof step === "symbol" ? String(step) : step))];
    const branch = issue.code === "invalid_union" ? chooseBranch(flatBranches(issue.errors), issue.input) : undefined;
    return branch === undefined ? [{ issue, path }] : locateIssues(branch, path);
  });
}

/** Findings for the user: one per unknown key, and none for a key that is only missing because it is misspelt. */
export function toFindings(issues: readonly LocatedIssue[], tree: unknown): readonly ConfigFinding[] {
  const findings = issues.flatMap((placed) => findingsOf(placed, tree));
  const misspelt = new Set(
    findings.flatMap(({ path, meant }) => (meant === undefined ? [] : [formatPath([...path, meant])])),
  );
  const isMisspelt = (path: Path): boolean => misspelt.has(formatPath(path));
  return (
    findings
      .filter(({ path }) => !isMisspelt(path) || valueAt(tree, path) !== undefined)
      // One of several keys is there, but misspelt.
      .filter(
        ({ path, message }) =>
          presentAlternatives(message, valueAt(tree, path)).length > 0 ||
          !alternativesIn(message).some((key) => isMisspelt([...path, key])),
      )
      // Two checks of one value may find the same.
      .filter(({ path, message }, index, all) => {
        const isSame = (other: ConfigFinding): boolean =>
          other.message === message && formatPath(other.path) === formatPath(path);
        return all.findIndex(isSame) === index;
      })
      .map(({ path, key, message, offset }) => ({ path, message, ...withoutUndefined({ key, offset }) }))
  );
}

/** How to write a server that was given as a single word. */
function serverHint(text: string): string {
  if (/^https?:/iu.test(text)) return "write `{ url: … }`";
  return text === "demo" ? "write `{ demo: true }`" : "write `{ command: …, args: […] }`, or `{ url: … }`";
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
        .filter(({ meant, key }) => meant !== undefined || key === "<<");
      if (slips.length > 0) return slips;
      const forms = schemasAt(path).flatMap(({ anyOf = [] }) => anyOf);
      const needsObject = forms.length > 0 && forms.every(({ type }) => type === "object");
      const isOther = needsObject && value !== undefined && !isObject(value);
      const hint = issue.message === upstreamFormError && typeof value === "string" ? `; ${serverHint(value)}` : "";
      const message = isOther
        ? `${issue.message}; found ${typeName(value)}${hint}`
        : issue.message + alternativesHint(issue.message, value);
      const more = canHold(path, true) ? quotesHint(["boolean"], value) : "";
      return [{ path, message: message + (more === "" ? formHint(path, "object", value) : more) }];
    }
    case "invalid_type": {
      // Only the type is known, which does not say what to write.
      const described = issue.expected === "object" ? describeKeys(path) : "";
      const hint = formHint(path, issue.expected, valueAt(tree, path));
      return [{ path, message: issue.message.replace("an object,", `an object${described},`) + hint }];
    }
    default: {
      // A check of a string may say at which character it failed.
      const offset: unknown = issue.code === "custom" ? issue.params?.["offset"] : undefined;
      const value = valueAt(tree, path);
      const hint = alternativesHint(issue.message, value) + typographyHint(value);
      return [{ path, message: issue.message + hint, ...(typeof offset === "number" ? { offset } : {}) }];
    }
  }
}

/** Which of the alternatives are there, where an object needs exactly one of them. */
function alternativesHint(message: string, value: unknown): string {
  const found = presentAlternatives(message, value);
  return found.length < 2 ? "" : `; found ${found.map((key) => `\`${key}\``).join(" and ")}: keep one`;
}

function presentAlternatives(message: string, value: unknown): readonly string[] {
  return alternativesIn(message).filter((key) => isObject(value) && Object.hasOwn(value, key));
}

function alternativesIn(message: string): readonly string[] {
  return message.startsWith(oneOf) ? [...message.matchAll(/`(?<key>[^`]+)`/gu)].map(([, key = ""]) => key) : [];
}

/** How the messages about alternatives begin. */
const oneOf = "needs exactly one of ";

function typographyHint(value: unknown): string {
  return typeof value === "string" && hasTypographicQuotes(value)
    ? '; its quotes are typographic and count as text: write `"`'
    : "";
}

/** What to write in place of a value that has another form. */
function formHint(path: Path, expected: string, value: unknown): string {
  if (path.at(-1) === "command" && Array.isArray(value)) return "; put all but the program in `args`";
  if (expected === "record" && Array.isArray(value)) return "; write `NAME: …` for each entry, without `-`";
  if (expected === "array" && isObject(value)) return "; begin each entry with `-`";
  if ((expected === "object" || expected === "record") && value === null && path.length > 0)
    return `; indent its keys further than \`${String(path.at(-1))}\``;
  if (expected !== "object" || value === null || typeof value === "object") return "";
  const begin = typeof value === "string" ? /^(?<key>\w+):(?!\/\/)\S/u.exec(value)?.groups?.["key"] : undefined;
  if (begin !== undefined && knownKeys(path).includes(begin)) return "; write a space after the colon";
  if (path.at(-1) === "auth" && value === false) return "; write `{ use: [anonymous] }` to admit everyone";
  const required = [...new Set(requiredKeys(path))];
  const candidates = required.length === 0 ? mainKeys[String(path.at(-1))] : required.length === 1 ? required : [];
  const meant = candidates?.find((key) => canHold([...path, key], value));
  return meant === undefined ? "" : `; write \`{ ${meant}: … }\``;
}

/** The keys that are mostly meant where a single value stands in place of an object. */
const mainKeys: Readonly<Record<string, readonly string[]>> = {
  admin: ["port", "host"],
  cors: ["origins"],
  listen: ["port", "host"],
  log: ["level"],
  record: ["file"],
  shutdown: ["grace"],
  timeouts: ["tool"],
};

function unknownKey(path: Path, key: string, tree: unknown): GuessedFinding {
  const renamed = newPathOf(path, key);
  if (renamed !== undefined) return { path, key, message: describeRename(path, key, renamed) };
  const present = valueAt(tree, path);
  const known = keysBeside(path, present);
  const unused = known.filter((name) => !isObject(present) || !Object.hasOwn(present, name));
  const value = isObject(present) ? present[key] : undefined;
  const found = slipIn(key) ?? otherForm(path, key, present) ?? adviceFor(path, key);
  const places = found ?? placesOf(path, key, value);
  // At the top level, `upstreams` is not a misspelt key but one of a route.
  const isCertain = found !== undefined || (path.length === 0 && places !== undefined);
  const meant = !isCertain
    ? (closestName(key, unused) ?? (places === undefined ? onlyPartOf(key, unused) : undefined))
    : undefined;
  const hint = meant === undefined ? (places ?? keysHint(path, key, value, known)) : `; did you mean \`${meant}\`?`;
  return { path, key, message: `unknown key \`${shownKey(key)}\`${hint}`, ...(meant === undefined ? {} : { meant }) };
}

/** A typing error in a key. */
function slipIn(key: string): string | undefined {
  if (unusualSpace.test(key)) return "; it contains a no-break space or another unusual character: type it again";
  return key.includes(":") ? "; write a space after the colon" : undefined;
}

/** White space that looks like a space, characters without a shape, and typographic quotes. */
const unusualSpace = /[^\P{White_Space} \n]|\p{Cf}|[\u2018-\u201F]/u;

function shownKey(key: string): string {
  return key.replaceAll(/[^\P{White_Space} ]|\p{C}/gu, "\u{FFFD}");
}

/** Advice about a key that belongs to another form of this object: `args` beside `url`. */
function otherForm(path: Path, key: string, present: unknown): string | undefined {
  const forms = schemasAt(path)
    .flatMap(alternativesOf)
    .filter(({ properties = {} }) => Object.hasOwn(properties, key));
  const [needed] = forms.flatMap(({ required = [] }) => required);
  if (needed === undefined || needed === key || !isObject(present) || Object.hasOwn(present, needed)) return undefined;
  const [own] = keysOfForm(path, present);
  return `; it goes with \`${needed}\`${own === undefined ? "" : `, not with \`${own}\``}`;
}

/** The required keys of the only form of an object whose required keys are all there. */
function keysOfForm(path: Path, present: unknown): readonly string[] {
  const [required = [], ...more] = formsOf(path, present).map((form) => form.required ?? []);
  return more.length === 0 ? required : [];
}

/** The known keys of an object, in the forms of it that this one can be. */
function keysBeside(path: Path, present: unknown): readonly string[] {
  return formsOf(path, present).flatMap(({ properties = {} }) => Object.keys(properties));
}

/** Keys that people expect under another name or in another place. */
const advice: Readonly<Record<string, string>> = {
  "<<": "; merge keys are not part of YAML 1.2: write the keys out, or repeat a whole value as `*name`",
  telemetry: "; spans are set up by environment variables such as OTEL_EXPORTER_OTLP_ENDPOINT",
  otel: "; spans are set up by environment variables such as OTEL_EXPORTER_OTLP_ENDPOINT",
  opentelemetry: "; spans are set up by environment variables such as OTEL_EXPORTER_OTLP_ENDPOINT",
  tracing: "; spans are set up by environment variables such as OTEL_EXPORTER_OTLP_ENDPOINT",
  metrics: "; they are always there: at /metrics of the `admin` listener",
  include: "; a configuration is one file",
  import: "; a configuration is one file",
  extends: "; a configuration is one file",
};

/** Advice about a key that belongs nowhere. */
function adviceFor(path: Path, key: string): string | undefined {
  const isRoute = path.length === 2 && path[0] === "routes";
  if (isRoute && key === "path") return `; this route is served at \`/${String(path[1])}/mcp\``;
  if (key !== "<<" && path.length > 0) return undefined;
  return Object.hasOwn(advice, key.toLowerCase()) ? advice[key.toLowerCase()] : undefined;
}

/** Where a misplaced key belongs: in an object around this one, or inside it. */
function placesOf(path: Path, key: string, value: unknown): string | undefined {
  const outer = placesAround(path).find((place) => knownKeys(place).includes(key) && isNoSlip([...place, key], value));
  if (outer !== undefined) return `; it belongs ${formatPlace(outer)}`;
  const inside = placesInside(path, key);
  if (inside.length === 0 || inside.length > 3) return undefined;
  return `; it belongs in ${inside.map((place) => `\`${formatPath(place)}\``).join(" or ")}`;
}

/** The paths of the objects around the one at a path, the nearest first. */
function placesAround(path: Path): readonly Path[] {
  return path.map((_, depth) => path.slice(0, depth)).toReversed();
}

/** Whether a value may have been meant for a setting; any scalar may be a typing error. */
function isNoSlip(path: Path, value: unknown): boolean {
  return typeof value !== "object" || value === null || canHold(path, value);
}

/** Whether a setting can have a value of this type. */
function canHold(path: Path, value: unknown): boolean {
  const type = Array.isArray(value) ? "array" : typeof value === "number" ? "number" : typeof value;
  const types = schemasAt(path)
    .flatMap(alternativesOf)
    .flatMap((schema) => schema.type ?? (schema.enum ?? [schema.const]).map((one) => typeof one));
  return types.some((known) => known === type || (known === "integer" && type === "number"));
}

/** A suggestion for a key that belongs nowhere. */
function keysHint(path: Path, key: string, value: unknown, beside: readonly string[]): string {
  const known = [...new Set(beside)];
  for (const place of placesAround(path)) {
    const fitting = knownKeys(place).filter((name) => isNoSlip([...place, name], value));
    const meant = closestName(key, fitting);
    if (meant !== undefined) return `; did you mean \`${meant}\` ${formatPlace(place)}?`;
  }
  return known.length === 0 ? "" : `; expected ${known.map((name) => `\`${name}\``).join(", ")}`;
}

function formatPlace(path: Path): string {
  return path.length === 0 ? "at the top level" : `in \`${formatPath(path)}\``;
}

/** The nearest objects inside the one at a path that have a key: in its members, or in theirs by name. */
function placesInside(path: Path, key: string): readonly Path[] {
  let level: readonly Path[] = [path];
  // Members of named members; a deeper one is not an indentation mistake.
  for (let depth = 0; depth < 4; depth++) {
    level = level.flatMap((place) => [
      ...[...new Set(knownKeys(place))].map((name) => [...place, name]),
      ...(hasNames(place) ? [[...place, "NAME"]] : []),
    ]);
    const found = level.filter((place) => knownKeys(place).includes(key));
    const routes = found.find((place) => place[0] === "routes");
    if (routes !== undefined) return [routes];
    // Most of what people write at the top level was meant for a route.
    const route = ["routes", "NAME"];
    if (found.length > 0) return path.length === 0 && knownKeys(route).includes(key) ? [route, ...found] : found;
  }
  return [];
}

/** The properties of an object at a path. */
function describeKeys(path: Path): string {
  const required = [...new Set(requiredKeys(path))].map((key) => `\`${key}\``);
  if (required.length > 0) return ` with ${required.join(" and ")}`;
  const keys = path.length === 0 ? ["upstream", "routes", "listen"] : [...new Set(knownKeys(path))].slice(0, 3);
  const known = keys.map((key) => `\`${key}\``);
  return known.length === 0 ? "" : ` with keys such as ${known.join(", ")}`;
}

/**
 * The issues of the only alternative that has the right type and all required keys, or of the only one that is an
 * object as the value is; undefined if none or several are.
 */
function chooseBranch(branches: readonly (readonly Issue[])[], value: unknown): readonly Issue[] | undefined {
  const meant = branches.filter((issues) =>
    issues.every(({ code, path, input }) =>
      path.length === 0 ? code === "unrecognized_keys" : path.length > 1 || input !== undefined,
    ),
  );
  if (meant.length === 1) return meant[0];
  const objects = branches.filter((issues) =>
    issues.every(({ code, path }) => path.length > 0 || code === "unrecognized_keys"),
  );
  return isObject(value) && objects.length === 1 ? objects[0] : undefined;
}

const typeNames: Readonly<Record<string, string>> = {
  string: "a string",
  number: "a number",
  int: "an integer",
  boolean: "`true` or `false`",
  object: "an object",
  record: "an object with names as keys",
  array: "a list",
};

function typeName(value: unknown): string {
  if (value === null) return "nothing (null)";
  if (Array.isArray(value)) return "a list";
  if (typeof value === "number" && !Number.isFinite(value)) return String(value);
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
