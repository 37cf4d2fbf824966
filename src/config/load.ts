import { dirname, extname, resolve as resolvePath } from "node:path";

import { fromClientConfig } from "./client-config.ts";
import { cleanMcpServers, memberNameOf, routeNameOf } from "./mcp-servers.ts";
import { isObject } from "../lib/is-object.ts";
import type { MaybePromise } from "../lib/is-promise.ts";
import {
  type ConfigFinding,
  describeIssue,
  formatPath,
  type LocatedIssue,
  locateIssues,
  type Path,
  type Problem,
  toFindings,
  valueAt,
  withValueAt,
} from "./issues.ts";
import { type ConfigInput, configSchema } from "./schema.ts";
import { createSecrets } from "./secrets.ts";
import type { Source, SourceFormat } from "./source.ts";
import { type Environment, reasonOf, substitute } from "./substitute.ts";
import type { Config } from "./config.ts";
import { resolveConfig, type ResolveDeps } from "./resolve.ts";
import { writtenFindings } from "./checks/settings.ts";
import { writtenSecrets, writtenSecretWarning } from "./checks/written-secrets.ts";

/** Where a configuration comes from, and what loading it may read. */
export interface LoadOptions {
  /** Path of the file; paths in it are relative to its folder. */
  readonly file?: string;
  /** The text, if it is not read from `file`. */
  readonly text?: string;
  /** Default: by the ending of the file name, otherwise YAML. */
  readonly format?: SourceFormat;
  /** Environment variables, for `${env:…}` and the proxy variables only. */
  readonly env: Environment;
  readonly readFile: (path: string) => Promise<string>;
  /** Checks a valid configuration further; what it finds is reported with its place in the file. */
  readonly inspect?: (config: Config) => MaybePromise<Inspection>;
  /** Options of the command line that override the file. */
  readonly overrides?: Pick<ConfigInput, "listen" | "admin" | "log" | "record" | "workers">;
}

/** What a further check of a configuration found. */
export interface Inspection {
  readonly problems: readonly ConfigFinding[];
  readonly warnings: readonly ConfigFinding[];
}

/**
 * Loads and validates a configuration file; reports every problem with line and column.
 *
 * @example
 * const checked = await loadConfig({
 *   file: "headgate.yaml",
 *   env: process.env,
 *   readFile: (path) => readFile(path, "utf8"),
 * });
 */
export async function loadConfig(options: LoadOptions): Promise<ConfigResult> {
  const { file, env, overrides = {} } = options;
  const text = await readText(options);
  if (!text.ok) return { ok: false, problems: [{ path: "", message: text.message }] };
  const source = await parseSource(text.text, options);
  if (!source.ok) return { ok: false, problems: source.faults.map((fault) => ({ path: "", ...fault })) };

  const folder = file === undefined ? undefined : dirname(file);
  const client = fromClientConfig(source.tree ?? {}, resolvePath("."));
  const cleaned = cleanMcpServers(client.tree);
  const replaced = await substitute(cleaned.tree, {
    env,
    readFile: (path) => options.readFile(folder === undefined ? path : resolvePath(folder, path)),
  });
  const laid = applyOverrides(replaced.tree, overrides);
  const written = writtenSecrets(laid.tree, replaced.paths);
  const secrets = createSecrets([...replaced.values, ...written.map(({ value }) => value)]);
  const checked = checkConfig(laid.tree, { env, secrets, ...(folder === undefined ? {} : { folder }) }, replaced.paths);

  // Its format has no other place for secrets that every client knows.
  const isOfClient = (path: Path): boolean => client.originOf(writtenPath(path, laid.tree))[0] === "mcpServers";
  const toProblem = (finding: ConfigFinding): Problem => {
    const path = client.originOf(writtenPath(finding.path, laid.tree));
    return {
      path: formatPath(path),
      message: secrets.redact(finding.message),
      ...(laid.paths.has(formatPath(finding.path)) ? {} : source.placeOf({ ...finding, path })),
    };
  };
  const unresolved = new Set(replaced.problems.map(({ path }) => formatPath(path)));
  const problems = [
    ...cleaned.problems,
    ...replaced.problems,
    // An unresolved reference is reported once, not also as an invalid value.
    ...(checked.ok ? [] : checked.problems.filter(({ path }) => !unresolved.has(formatPath(path)))),
  ];
  if (!checked.ok || problems.length > 0) return { ok: false, problems: problems.map(toProblem).toSorted(byPosition) };
  const found = await options.inspect?.(checked.config);
  if (found !== undefined && found.problems.length > 0)
    return { ok: false, problems: found.problems.map(toProblem).toSorted(byPosition) };
  return {
    ok: true,
    config: checked.config,
    warnings: [
      ...client.notes,
      ...cleaned.warnings,
      ...replaced.warnings,
      ...checked.warnings,
      ...written.filter(({ path }) => !isOfClient(path)).map(writtenSecretWarning),
      ...(found?.warnings ?? []),
    ].map(toProblem),
  };
}

type TextResult = { readonly ok: true; readonly text: string } | { readonly ok: false; readonly message: string };

async function readText({ file, text, readFile }: LoadOptions): Promise<TextResult> {
  if (text !== undefined) return { ok: true, text };
  if (file === undefined) return { ok: true, text: "" };
  try {
    return { ok: true, text: await readFile(file) };
  } catch (error) {
    return { ok: false, message: `cannot be read: ${reasonOf(error)}` };
  }
}

async function parseSource(text: string, { file, format }: LoadOptions): Promise<Source> {
  // Imported only when needed, to keep other starts fast.
  const { readSource, sourceFormatOf } = await import("./source.ts");
  return readSource(text, format ?? sourceFormatOf(extname(file ?? "")));
}

function applyOverrides(tree: unknown, overrides: Readonly<Record<string, unknown>>) {
  const changes = Object.entries(overrides).flatMap(([section, value]): [Path, unknown][] =>
    isObject(value) ? Object.entries(value).map(([key, inner]) => [[section, key], inner]) : [[[section], value]],
  );
  const given = changes.filter(([, value]) => value !== undefined);
  return {
    tree: given.reduce((sum, [path, value]) => withValueAt(sum, path, value), tree),
    paths: new Set(given.map(([path]) => formatPath(path))),
  };
}

/** Where the server of a route is written: routes may come from `mcpServers`. */
function writtenPath(path: Path, tree: unknown): Path {
  const [list, name, ...inner] = path;
  const servers = valueAt(tree, ["mcpServers"]);
  if (!isObject(servers) || name === undefined || valueAt(tree, [list ?? "", name]) !== undefined) return path;
  const entry = Object.keys(servers).find((server) =>
    list === "routes" ? routeNameOf(server) === name : list === "upstreams" && memberNameOf(server) === name,
  );
  if (entry === undefined) return path;
  return ["mcpServers", entry, ...(inner[0] === "upstream" ? inner.slice(1) : inner)];
}

function byPosition(one: Problem, other: Problem): number {
  return (one.line ?? 0) - (other.line ?? 0) || (one.column ?? 0) - (other.column ?? 0);
}

/** A configuration, or everything that is wrong with it. */
export type ConfigResult =
  | { readonly ok: true; readonly config: Config; readonly warnings: readonly Problem[] }
  | { readonly ok: false; readonly problems: readonly Problem[] };

/** The same before positions in a file are known. */
export type CheckedConfig =
  | { readonly ok: true; readonly config: Config; readonly warnings: readonly ConfigFinding[] }
  | { readonly ok: false; readonly problems: readonly ConfigFinding[] };

/**
 * Validates a configuration passed as a value. References such as `${env:NAME}` are not replaced.
 *
 * @example
 * const checked = parseConfig({ upstream: { url: "http://127.0.0.1:3000/mcp" } });
 * if (!checked.ok) throw new Error(checked.problems.map(({ message }) => message).join("\n"));
 */
export function parseConfig(input: ConfigInput, env: Environment = {}): ConfigResult {
  const cleaned = cleanMcpServers(input);
  const checked = checkConfig(cleaned.tree, { env, secrets: createSecrets([]) });
  const written = ({ path, message }: ConfigFinding): Problem => ({ path: formatPath(path), message });
  const problems = [...cleaned.problems, ...(checked.ok ? [] : checked.problems)];
  if (!checked.ok || problems.length > 0) return { ok: false, problems: problems.map(written) };
  return {
    ok: true,
    config: checked.config,
    warnings: [...cleaned.warnings, ...checked.warnings].map(written),
  };
}

/**
 * Validates a tree of values and resolves the configuration. A string at one of the `replaced` paths may be converted to
 * a number or boolean, because references always produce strings.
 */
function checkConfig(
  tree: unknown,
  surroundings: ResolveDeps,
  replaced: ReadonlySet<string> = new Set(),
): CheckedConfig {
  const first = parseTree(tree);
  const typed = first.ok ? tree : first.issues.reduce((sum, issue) => coerceReplaced(sum, issue, replaced), tree);
  const read = first.ok || typed === tree ? first : parseTree(typed);
  if (!read.ok) return { ok: false, problems: toFindings(read.issues, typed) };
  const { config, problems, warnings } = resolveConfig(read.written, surroundings);
  const values = writtenFindings(typed, replaced);
  const all = [...problems, ...values.problems];
  return all.length > 0
    ? { ok: false, problems: all }
    : { ok: true, config, warnings: [...warnings, ...values.warnings] };
}

function parseTree(tree: unknown) {
  // Read once, so that compiling code for each object of the schema would not pay. Needed by bench load: "listens after".
  const options = { error: describeIssue, reportInput: true, jitless: true };
  const { success, data, error } = configSchema.safeParse(tree, options);
  return success ? { ok: true as const, written: data } : { ok: false as const, issues: locateIssues(error.issues) };
}

/** Converts a replaced string to the number or boolean that the schema expects. */
function coerceReplaced(tree: unknown, { issue, path }: LocatedIssue, replaced: ReadonlySet<string>): unknown {
  const { input } = issue;
  if (issue.code !== "invalid_type" || typeof input !== "string" || !replaced.has(formatPath(path))) return tree;
  if (issue.expected === "boolean" && (input === "true" || input === "false")) {
    return withValueAt(tree, path, input === "true");
  }
  const wantsNumber = issue.expected === "number" || issue.expected === "int";
  return wantsNumber && /^-?\d+(?:\.\d+)?$/u.test(input) ? withValueAt(tree, path, Number(input)) : tree;
}
