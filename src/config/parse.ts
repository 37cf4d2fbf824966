import type { Config } from "./config.ts";
import { describeIssue, locateIssues, toFindings, type LocatedIssue } from "./issues.ts";
import { cleanMcpServers } from "./mcp-servers.ts";
import { formatPath, withValueAt, type ConfigFinding, type Problem } from "./problem.ts";
import { resolveConfig, type ResolveDeps } from "./resolve.ts";
import { configSchema, type ConfigInput } from "./schema.ts";
import { createSecrets } from "./secrets.ts";
import type { Environment } from "./substitute.ts";

/** A configuration, or everything that is wrong with it. */
export type ConfigResult =
  | { readonly ok: true; readonly config: Config; readonly warnings: readonly Problem[] }
  | { readonly ok: false; readonly problems: readonly Problem[] };

/** The same before places in a file are known. */
export type CheckedConfig =
  | { readonly ok: true; readonly config: Config; readonly warnings: readonly ConfigFinding[] }
  | { readonly ok: false; readonly problems: readonly ConfigFinding[] };

/** Checks a configuration that is at hand as a value, as the library gets it; references in texts are not replaced. */
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
 * Checks a tree of values against the schema and puts the configuration together. A text at one of the `replaced` paths
 * may stand for a number or a truth value, because references always give texts.
 */
export function checkConfig(
  tree: unknown,
  surroundings: ResolveDeps,
  replaced: ReadonlySet<string> = new Set(),
): CheckedConfig {
  const first = parseTree(tree);
  const typed = first.ok
    ? tree
    : first.issues.reduce((sum, issue) => coerceReplaced(sum, issue, replaced), tree);
  const read = first.ok || typed === tree ? first : parseTree(typed);
  if (!read.ok) return { ok: false, problems: toFindings(read.issues, typed) };
  const { config, problems, warnings } = resolveConfig(read.written, surroundings);
  return problems.length > 0 ? { ok: false, problems } : { ok: true, config, warnings };
}

function parseTree(tree: unknown) {
  const { success, data, error } = configSchema.safeParse(tree, { error: describeIssue, reportInput: true });
  return success
    ? { ok: true as const, written: data }
    : { ok: false as const, issues: locateIssues(error.issues) };
}

/** The tree with a replaced text turned into the number or truth value that the schema wants there. */
function coerceReplaced(
  tree: unknown,
  { issue, path }: LocatedIssue,
  replaced: ReadonlySet<string>,
): unknown {
  const { input } = issue;
  if (issue.code !== "invalid_type" || typeof input !== "string" || !replaced.has(formatPath(path)))
    return tree;
  if (issue.expected === "boolean" && (input === "true" || input === "false")) {
    return withValueAt(tree, path, input === "true");
  }
  const wantsNumber = issue.expected === "number" || issue.expected === "int";
  return wantsNumber && /^-?\d+(?:\.\d+)?$/u.test(input) ? withValueAt(tree, path, Number(input)) : tree;
}
