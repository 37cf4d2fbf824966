import { dirname, extname, resolve as resolvePath } from "node:path";

import { cleanMcpServers } from "./mcp-servers.ts";
import { checkConfig, type ConfigResult } from "./parse.ts";
import { formatPath, isObject, withValueAt, type ConfigFinding, type Path, type Problem } from "./problem.ts";
import type { ConfigInput } from "./schema.ts";
import { createSecrets } from "./secrets.ts";
import type { Source, SourceFormat } from "./source.ts";
import { reasonOf, substitute, type Environment } from "./substitute.ts";

/** Where a configuration comes from, and the outside world as it may look at it. */
export interface LoadOptions {
  /** Path of the file; paths in it are relative to its folder. */
  readonly file?: string;
  /** The text itself, where it was read already or never was a file. */
  readonly text?: string;
  /** By the ending of the file unless given; YAML where that tells nothing. */
  readonly format?: SourceFormat;
  /** The environment: read for `${env:…}` and the proxy variables. Nothing else looks at it. */
  readonly env: Environment;
  readonly readFile: (path: string) => Promise<string>;
  /** What the command line says instead of the file. */
  readonly overrides?: Pick<ConfigInput, "listen" | "admin" | "log">;
}

/** Reads, completes and checks a configuration; says everything that is wrong with it, with lines and columns. */
export async function loadConfig(options: LoadOptions): Promise<ConfigResult> {
  const { file, env, overrides = {} } = options;
  const text = await readText(options);
  if (!text.ok) return { ok: false, problems: [{ path: "", message: text.message }] };
  const source = await parseSource(text.text, options);
  if (!source.ok) return { ok: false, problems: source.faults.map((fault) => ({ path: "", ...fault })) };

  const folder = file === undefined ? undefined : dirname(file);
  const cleaned = cleanMcpServers(source.tree ?? {});
  const replaced = await substitute(cleaned.tree, {
    env,
    readFile: (path) => options.readFile(folder === undefined ? path : resolvePath(folder, path)),
  });
  const secrets = createSecrets(replaced.values);
  const laid = applyOverrides(replaced.tree, overrides);
  const checked = checkConfig(
    laid.tree,
    { env, secrets, ...(folder === undefined ? {} : { folder }) },
    replaced.paths,
  );

  const toProblem = (finding: ConfigFinding): Problem => ({
    path: formatPath(finding.path),
    message: secrets.redact(finding.message),
    ...(laid.paths.has(formatPath(finding.path)) ? {} : source.placeOf(finding)),
  });
  const unresolved = new Set(replaced.problems.map(({ path }) => formatPath(path)));
  const problems = [
    ...cleaned.problems,
    ...replaced.problems,
    // A value that could not be had is only said to be missing, not to be wrong as well.
    ...(checked.ok ? [] : checked.problems.filter(({ path }) => !unresolved.has(formatPath(path)))),
  ];
  if (!checked.ok || problems.length > 0)
    return { ok: false, problems: problems.map(toProblem).toSorted(byPosition) };
  return {
    ok: true,
    config: checked.config,
    warnings: [...cleaned.warnings, ...checked.warnings].map(toProblem),
  };
}

type TextResult =
  | { readonly ok: true; readonly text: string }
  | { readonly ok: false; readonly message: string };

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
  // The YAML reader is only loaded by those who have a file: it would cost every other start its time.
  const { readSource } = await import("./source.ts");
  return readSource(text, format ?? (extname(file ?? "").toLowerCase() === ".json" ? "json" : "yaml"));
}

function applyOverrides(tree: unknown, overrides: Readonly<Record<string, unknown>>) {
  const changes = Object.entries(overrides).flatMap(([section, value]): [Path, unknown][] =>
    isObject(value)
      ? Object.entries(value).map(([key, inner]) => [[section, key], inner])
      : [[[section], value]],
  );
  const given = changes.filter(([, value]) => value !== undefined);
  return {
    tree: given.reduce((sum, [path, value]) => withValueAt(sum, path, value), tree),
    paths: new Set(given.map(([path]) => formatPath(path))),
  };
}

function byPosition(one: Problem, other: Problem): number {
  return (one.line ?? 0) - (other.line ?? 0) || (one.column ?? 0) - (other.column ?? 0);
}
