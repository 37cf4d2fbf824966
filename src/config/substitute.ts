import { isObject } from "../lib/is-object.ts";
import { formatPath, type ConfigFinding, type Path } from "./issues.ts";
import { thrownMessage } from "../lib/thrown-message.ts";

/** Environment variables. */
export type Environment = Readonly<Record<string, string | undefined>>;

/** Sources of references. */
export interface References {
  readonly env: Environment;
  /** Reads the file of `${file:…}`; the path may be relative to the configuration. */
  readonly readFile: (path: string) => Promise<string>;
}

/** A tree with its references replaced. */
export interface SubstitutedTree {
  readonly tree: unknown;
  /** The values of the references, without defaults. */
  readonly values: readonly string[];
  /** The paths of strings with references, in the form of `formatPath`. */
  readonly paths: ReadonlySet<string>;
  readonly problems: readonly ConfigFinding[];
  readonly warnings: readonly ConfigFinding[];
}

const reference = /\$\$\{|\$\{(?<inner>[^{}]*)\}/gu;
const environment = /^(?:(?<source>env):)?(?<name>[A-Z_a-z]\w*)(?::-(?<fallback>.*))?$/su;
const unclosed = /\$\{(?:env|file):[^{}]*$/u;
const file = /^file:(?<path>.+)$/su;

/**
 * Replaces `${env:NAME}`, `${env:NAME:-default}` and `${file:/path}` in every string of a tree. In `mcpServers`,
 * `${NAME}` reads the environment as it does for MCP clients; elsewhere it is a problem, because it would be sent
 * literally. `$${` is a literal `${`.
 */
export async function substitute(tree: unknown, references: References): Promise<SubstitutedTree> {
  const values: string[] = [];
  const paths = new Set<string>();
  const problems: ConfigFinding[] = [];
  const warnings: ConfigFinding[] = [];

  // Sequential, so that problems come in the order of the file.
  async function walk(value: unknown, path: Path): Promise<unknown> {
    if (typeof value === "string") return replaceIn(value, path);
    if (Array.isArray(value)) {
      const items: unknown[] = [];
      for (const [index, item] of value.entries()) items.push(await walk(item, [...path, index]));
      return items;
    }
    if (!isObject(value)) return value;
    const entries: [string, unknown][] = [];
    for (const [key, inner] of Object.entries(value)) entries.push([key, await walk(inner, [...path, key])]);
    return Object.fromEntries(entries);
  }

  async function replaceIn(text: string, path: Path): Promise<string> {
    let result = "";
    let end = 0;
    for (const match of text.matchAll(reference)) {
      result += text.slice(end, match.index) + (await replacementOf(match, path));
      end = match.index + match[0].length;
    }
    const rest = text.slice(end);
    if (unclosed.test(rest)) problems.push({ path, message: "a reference is not closed; write `${env:NAME}`" });
    return result + rest;
  }

  async function replacementOf(match: RegExpExecArray, path: Path): Promise<string> {
    const inner = match.groups?.["inner"];
    if (inner === undefined) return "${";
    const resolved = await resolveReference(inner, path[0] === "mcpServers", references);
    if (resolved === undefined) return match[0];
    paths.add(formatPath(path));
    if ("problem" in resolved) {
      problems.push({ path, message: resolved.problem });
      return match[0];
    }
    if (resolved.secret) values.push(resolved.value);
    if (resolved.warning !== undefined) warnings.push({ path, message: resolved.warning });
    return resolved.value;
  }

  return { tree: await walk(tree, []), values, paths, problems, warnings };
}

type Replacement =
  | { readonly value: string; readonly secret: boolean; readonly warning?: string }
  | { readonly problem: string };

async function resolveReference(inner: string, plain: boolean, from: References): Promise<Replacement | undefined> {
  const path = file.exec(inner)?.groups?.["path"];
  if (path !== undefined) return readSecret(path, from);
  const { source, name, fallback } = environment.exec(inner)?.groups ?? {};
  if (name === undefined) {
    return /^(?:[a-z]+|\s*(?:env|file)\s*):/iu.test(inner)
      ? { problem: `\`\${${inner}}\` is not a reference; use \`\${env:NAME}\` or \`\${file:/path}\`` }
      : undefined;
  }
  if (source === undefined && !plain) {
    return {
      problem: `\`\${${inner}}\` is not replaced here; write \`\${env:${inner}}\`, or \`$\${${inner}}\` for the literal text`,
    };
  }
  const set = Object.hasOwn(from.env, name) ? from.env[name] : undefined;
  // As in shells, an empty variable takes the default too. A default is in the file and therefore not secret.
  if (fallback !== undefined && (set === undefined || set === "")) return { value: fallback, secret: false };
  const withDefault = (text: string): string => `\`\${${source === undefined ? "" : "env:"}${name}:-${text}}\``;
  if (set === undefined)
    return { problem: `environment variable ${name} is not set; set it, or write ${withDefault("default")}` };
  // For example, a compose file may pass on a variable that is not set.
  const warning = `environment variable ${name} is empty; set it, or write ${withDefault("")} if it may be`;
  return { value: set, secret: true, ...(set === "" ? { warning } : {}) };
}

async function readSecret(path: string, from: References): Promise<Replacement> {
  try {
    // The trailing line feed of a file does not belong to the secret.
    return { value: (await from.readFile(path)).replace(/\r?\n$/u, ""), secret: true };
  } catch (error) {
    return { problem: `cannot read ${path}: ${reasonOf(error)}` };
  }
}

/** Why a file cannot be read. */
export function reasonOf(error: unknown): string {
  const code = error instanceof Error && "code" in error ? error.code : undefined;
  if (code === "ENOENT") return "no such file";
  if (code === "EACCES") return "permission denied";
  if (code === "EISDIR") return "is a folder";
  if (code === "ENOTDIR") return "a part of the path is not a folder";
  if (code === "ELOOP") return "its symbolic links lead in a circle";
  if (code === "ERR_ENCODING_INVALID_ENCODED_DATA") return "is not UTF-8 text; save it as UTF-8";
  return thrownMessage(error);
}
