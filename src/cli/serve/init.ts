import { randomBytes } from "node:crypto";
import { existsSync, writeFileSync } from "node:fs";
import { homedir } from "node:os";
import { extname, join } from "node:path";

import { stringify } from "yaml";

import { fromClientConfig } from "../../config/client-config.ts";
import { formatProblem } from "../../config/issues.ts";
import { routeNameOf } from "../../config/mcp-servers.ts";
import { readSource, sourceFormatOf } from "../../config/source.ts";
import { type Environment, reasonOf } from "../../config/substitute.ts";
import { isLoopback, parseUrl } from "../../lib/addresses.ts";
import { isObject } from "../../lib/is-object.ts";
import { withoutUndefined } from "../../lib/without-undefined.ts";
import { detectSecrets } from "../../redact/detectors/secrets.ts";
import { createRedactor } from "../../redact/redactor.ts";
import { isSecretName, normalizeName } from "../../redact/secret-names.ts";
import { counted } from "../client/resources.ts";
import { exitCodes } from "../commands.ts";
import { defineCommand, InputFileError, UsageError } from "../define-command.ts";
import { createPrompt, type CommandIo } from "../io.ts";
import { checkInlineOptions, inlineConfig } from "./inline-config.ts";

type Entries = Readonly<Record<string, unknown>>;

/** The routes to write, and the variables that they need. */
interface Routes {
  readonly routes: Record<string, unknown>;
  readonly variables: Set<string>;
}

/** `headgate init`: writes a commented configuration. */
export const init = defineCommand("init", async ({ values, positionals, program }, io: CommandIo) => {
  const output = values.output ?? "headgate.yaml";
  if (output !== "-" && existsSync(output) && values.force !== true)
    throw new UsageError(`${output} exists; write elsewhere with --output, or replace it with --force`);
  const isInline = values.upstream !== undefined || program !== undefined;
  if (isInline && positionals.length > 0)
    throw new UsageError("files, --upstream URL and -- COMMAND cannot be combined");
  const found: Routes = { routes: {}, variables: new Set() };
  if (isInline) checkInlineOptions({ upstream: values.upstream, program });
  if (isInline) addInline(found, { upstream: values.upstream, program }, io.env);
  else if (positionals.length > 0) for (const file of positionals) await addFile(found, file, io);
  else await askForServers(found, io);
  const text = formatConfig(found);
  if (output === "-") io.out(text);
  else {
    writeFileSync(output, text, { mode: 0o600 });
    io.err(nextSteps(output, found, io.ownCommand ?? "headgate"));
  }
  return exitCodes.ok.code;
});

function addInline(
  { routes }: Routes,
  options: { readonly upstream: string | undefined; readonly program: readonly string[] | undefined },
  env: Environment,
): void {
  const config = inlineConfig(options, env);
  if (isObject(config) && isObject(config["routes"])) Object.assign(routes, config["routes"]);
}

async function addFile(found: Routes, file: string, io: CommandIo): Promise<void> {
  let text: string;
  try {
    text = await io.readFile(file);
  } catch (error) {
    throw new InputFileError(formatProblem({ path: "", message: `cannot be read: ${reasonOf(error)}` }, file));
  }
  const source = readSource(text, sourceFormatOf(extname(file)));
  if (!source.ok)
    throw new InputFileError(source.faults.map((fault) => formatProblem({ path: "", ...fault }, file)).join("\n"));
  const { tree } = fromClientConfig(source.tree);
  const servers = isObject(tree) && isObject(tree["mcpServers"]) ? tree["mcpServers"] : {};
  const entries = Object.entries(servers).filter(
    ([, entry]) => isObject(entry) && entry["disabled"] !== true && !isThisGateway(entry["url"]),
  );
  if (entries.length === 0) throw new InputFileError(`headgate init: ${file} has no servers in it`);
  for (const [name, entry] of entries) if (isObject(entry)) addServer(found, name, entry);
}

/** Whether a client already connects to the gateway that the configuration will be for. */
function isThisGateway(url: unknown): boolean {
  const { hostname, port } = (typeof url === "string" ? parseUrl(url) : undefined) ?? {};
  return hostname !== undefined && isLoopback(hostname) && port === "8484";
}

function addServer({ routes, variables }: Routes, name: string, entry: Entries): void {
  const wanted = routeNameOf(name) ?? "server";
  let free = wanted;
  for (let count = 2; Object.hasOwn(routes, free); count++) free = `${wanted}-${count}`;
  const { command, args, env, cwd, type } = entry;
  const prefix = free.toUpperCase().replaceAll(/\W+/gu, "_");
  const { url, headers } = withoutUserInfo(entry);
  const hideSecrets = createSecretHiding(`${prefix}_SECRET`, variables);
  const values = {
    command,
    args: Array.isArray(args) ? hideSecrets(args).map((arg) => reference(arg, variables)) : undefined,
    env: withoutSecrets(env, (key) => key, variables),
    cwd,
    url: hideSecrets([url])[0],
    transport: type === "sse" ? "sse" : undefined,
    headers: withoutSecrets(headers, (key) => `${prefix}_${key.toUpperCase().replaceAll(/\W+/gu, "_")}`, variables),
  };
  routes[free] = { upstream: withoutUndefined(values) };
}

/** User and password in a URL are sent as a header, so the configuration has them in `headers`. */
function withoutUserInfo({ url, headers }: Entries): { readonly url: unknown; readonly headers: unknown } {
  const parsed = typeof url === "string" ? parseUrl(url) : undefined;
  if (parsed === undefined || (parsed.username === "" && parsed.password === "")) return { url, headers };
  const [user, password] = [decodeURIComponent(parsed.username), decodeURIComponent(parsed.password)];
  [parsed.username, parsed.password] = ["", ""];
  const authorization = `Basic ${Buffer.from(`${user}:${password}`).toString("base64")}`;
  return { url: parsed.href, headers: { Authorization: authorization, ...(isObject(headers) ? headers : {}) } };
}

/** Replaces what looks like a secret in words of a command line, or in a URL, by references to `name`, `name_2` and so on. */
function createSecretHiding(name: string, variables: Set<string>): (words: readonly unknown[]) => readonly unknown[] {
  const references = new Map<string, string>();
  return (words) => {
    const isText = (word: unknown): word is string => typeof word === "string" && !word.includes("${");
    // The name of a secret may be the word before it: `--api-key VALUE`.
    for (const secret of secretsIn(words.filter(isText).join(" "))) {
      if (references.has(secret)) continue;
      const variable = references.size === 0 ? name : `${name}_${references.size + 1}`;
      references.set(secret, `\${env:${variable}}`);
      variables.add(variable);
    }
    // Longest first: a secret may contain another.
    const found = [...references].toSorted(([one], [other]) => other.length - one.length);
    return words.map((word) => {
      if (!isText(word)) return word;
      return found.reduce((text, [secret, written]) => text.replaceAll(secret, () => written), word);
    });
  };
}

const redactor = createRedactor({ detectors: { secrets: detectSecrets }, key: randomBytes(16) });

/** What redaction would hide in a string. */
function secretsIn(text: string): readonly string[] {
  return redactor.text(text).secrets;
}

/** Clients write `${NAME}` for a variable; we write `${env:NAME}`. */
function reference(value: unknown, variables: Set<string>): unknown {
  if (typeof value !== "string") return value;
  return value.replaceAll(/\$\{(?:env:)?([A-Z_a-z]\w*)(:-[^}]*)?\}/gu, (_, name: string, fallback = "") => {
    variables.add(name);
    return `\${env:${name}${String(fallback)}}`;
  });
}

/** A value that is a secret, by its name or its form, becomes a reference to the environment. */
function withoutSecrets(value: unknown, variableOf: (key: string) => string, variables: Set<string>): unknown {
  if (!isObject(value) || Object.keys(value).length === 0) return undefined;
  const entries = Object.entries(value).map(([key, inner]) => {
    const isReference = typeof inner === "string" && inner.includes("${");
    const isSecret = typeof inner === "string" && (isSecretName(normalizeName(key)) || secretsIn(inner).length > 0);
    if (isReference || !isSecret) return [key, reference(inner, variables)] as const;
    const variable = variableOf(key);
    variables.add(variable);
    const scheme = /^(?:Bearer|Basic|token) /iu.exec(inner)?.[0] ?? "";
    return [key, `${scheme}\${env:${variable}}`] as const;
  });
  return Object.fromEntries(entries);
}

/** Files of clients, from this folder and from the home of the user. */
function clientFiles(env: Environment): readonly string[] {
  const home = env["HOME"] ?? homedir();
  const settings = {
    darwin: join(home, "Library", "Application Support"),
    win32: env["APPDATA"] ?? join(home, "AppData", "Roaming"),
  };
  const folder =
    process.platform === "darwin" || process.platform === "win32" ? settings[process.platform] : join(home, ".config");
  return [
    ".mcp.json",
    join(".vscode", "mcp.json"),
    join(".cursor", "mcp.json"),
    join(home, ".claude.json"),
    join(folder, "Claude", "claude_desktop_config.json"),
    join(folder, "Code", "User", "mcp.json"),
    join(home, ".cursor", "mcp.json"),
    join(home, ".codeium", "windsurf", "mcp_config.json"),
    join(home, ".codex", "config.toml"),
    join(folder, "zed", "settings.json"),
    "opencode.json",
    join(home, ".config", "opencode", "opencode.json"),
    join(home, ".gemini", "settings.json"),
  ].filter((file) => existsSync(file));
}

/** Asks which files to use, or else for a server; without a terminal, uses all files that have servers. */
async function askForServers(found: Routes, io: CommandIo): Promise<void> {
  using prompt = createPrompt(io);
  for (const file of clientFiles(io.env)) {
    const own: Routes = { routes: {}, variables: new Set() };
    try {
      await addFile(own, file, io);
    } catch {
      continue;
    }
    const names = Object.keys(own.routes).join(", ");
    const answer = await prompt?.ask(`${file} has ${names}. Take them? [Y/n] `);
    if (answer !== undefined && /^n/iu.test(answer.trim())) continue;
    if (prompt === undefined) io.err(`headgate: taking ${names} from ${file}\n`);
    await addFile(found, file, io);
  }
  if (Object.keys(found.routes).length > 0) return;
  const server =
    (await prompt?.ask("The URL or the command of an MCP server (empty for the demo server): "))?.trim() ?? "";
  const isUrl = /^https?:/u.test(server);
  const words = server === "" || isUrl ? undefined : server.split(/\s+/u);
  addInline(found, { upstream: isUrl ? server : undefined, program: words }, io.env);
}

function formatConfig({ routes, variables }: Routes): string {
  const needed = [...variables].toSorted();
  const names = Object.keys(routes);
  const places = names.map((name) => `#   http://127.0.0.1:8484/${name}/mcp\n`).join("");
  const needs = needed.length === 0 ? "" : `#\n# Set these variables before it starts: ${needed.join(", ")}\n`;
  return `# Headgate's configuration. Every key: https://github.com/headgate/headgate/blob/main/docs/reference/config.md
# For completion in an editor, run \`headgate schema > headgate.schema.json\` and add a line \`# yaml-language-server: $schema=headgate.schema.json\`.
# Try it with \`headgate check\` and \`headgate doctor\`, then start it with \`headgate run\`. Clients connect to
${names.length === 1 ? "#   http://127.0.0.1:8484/mcp\n" : places}${needs}
listen:
  port: 8484 # on this machine only; \`host\` and \`auth\` let others connect

# Record every exchange, with secrets removed: \`headgate traffic\` shows them.
record: true

# The servers. Each is a route with limits, timeouts, authentication and policy of its own.
${stringify({ routes })}
# Who may call: API keys (\`headgate key\` makes one), OAuth tokens or client certificates.
# auth:
#   authenticators:
#     keys: { apiKeys: { keys: { ann: { hash: "sha256:…" } } } }

# What they may do. Anything that no rule allows is refused and not listed.
# policy:
#   rules:
#     - { id: no-deletes, deny: 'mcp.tool.startsWith("delete_")' }
#     - { id: rest, allow: "true" }
`;
}

function nextSteps(file: string, { routes, variables }: Routes, command: string): string {
  const set = variables.size === 0 ? "" : `  set ${[...variables].toSorted().join(", ")}, then\n`;
  const named = file === "headgate.yaml" ? "" : ` ${file}`;
  const run = file === "headgate.yaml" ? "run" : `run --config ${file}`;
  return `headgate: wrote ${file} with ${counted(Object.keys(routes).length, "server")}\n${set}  ${command} doctor${named}\n  ${command} ${run}\n`;
}
