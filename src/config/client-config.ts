import { isObject } from "../lib/is-object.ts";
import { withoutUndefined } from "../lib/without-undefined.ts";
import { type ConfigFinding, type Path, valueAt } from "./issues.ts";
import { reservedNames } from "./routes.ts";
import { configSchema } from "./schema.ts";

type Entries = Readonly<Record<string, unknown>>;

/** A file of an MCP client, in the form that a configuration takes. */
export interface ClientConfig {
  /** The servers under `mcpServers`; the given tree if it is not a client's file. */
  readonly tree: unknown;
  /** What was left out or renamed. */
  readonly notes: readonly ConfigFinding[];
  /** Where a path of the new tree was in the file. */
  readonly originOf: (path: Path) => Path;
}

/** Keys that only our own configuration has. */
const ownKeys = ["listen", "routes", "upstream", "upstreams", "federate", "policy", "auth", "record", "audit", "drift"];
const allOwnKeys: ReadonlySet<string> = new Set(Object.keys(configSchema.shape));
const sharedKeys: ReadonlySet<string> = new Set(["$schema", "mcpServers"]);

/** Whether a tree is our own configuration: it has a key that no client has, or nothing but ours. */
function isOwn(tree: Entries): boolean {
  const keys = Object.keys(tree);
  if (ownKeys.some((key) => keys.includes(key))) return true;
  return keys.every((key) => allOwnKeys.has(key)) && keys.some((key) => !sharedKeys.has(key));
}

/** Where clients keep their servers: most clients, VS Code, VS Code's settings and opencode, Zed, Codex, Goose. */
const containers: readonly Path[] = [
  ["mcpServers"],
  ["servers"],
  ["mcp", "servers"],
  ["mcp"],
  ["context_servers"],
  ["mcp_servers"],
  ["extensions"],
];

/**
 * Reads the servers from the configuration of an MCP client; everything else in it is left out with a note. The
 * editor's `workspaceFolder` becomes the given one.
 */
export function fromClientConfig(tree: unknown, workspaceFolder = "."): ClientConfig {
  const unchanged: ClientConfig = { tree, notes: [], originOf: (path) => path };
  if (!isObject(tree) || isOwn(tree)) return unchanged;
  const found = [
    ...containers.flatMap((path) => serversAt(tree, path)),
    ...projectPaths(tree).flatMap((path) => serversAt(tree, path)),
  ];
  const isPlain = Object.keys(tree).every((key) => key === "mcpServers" || key === "$schema");
  const hasOwnNames = found.every(
    ({ entry }) =>
      typeof (entry["command"] ?? entry["url"]) === "string" && !editorVariable.test(JSON.stringify(entry)),
  );
  if (found.length === 0 || (isPlain && hasOwnNames && isObject(tree["mcpServers"]))) return unchanged;
  const origins = new Map<string, Path>();
  const servers: Record<string, unknown> = {};
  const notes: ConfigFinding[] = [];
  for (const { path, name, entry } of found) {
    const normal = withoutEditorVariables(normalizeEntry(entry), workspaceFolder);
    const reason = isObject(normal) && normal["disabled"] !== true ? unusable(normal) : undefined;
    if (reason !== undefined) {
      notes.push({ path, message: `is left out: ${reason}` });
      continue;
    }
    const free = freeName(name, servers);
    servers[free] = normal;
    origins.set(free, path);
    if (isObject(normal) && normal["disabled"] !== true)
      for (const key of Object.keys(entry))
        if (!readKeys.has(key)) notes.push({ path, key, message: `\`${key}\` is ignored${ignoredHint(key)}` });
  }
  const used = new Set(found.map(({ path }) => path[0]));
  const ignored = Object.keys(tree).filter((key) => !used.has(key) && key !== "$schema");
  const shown = ignored.slice(0, 5).map((key) => `\`${key}\``);
  const rest = ignored.length > shown.length ? ` and ${ignored.length - shown.length} more` : "";
  if (ignored.length > 0)
    notes.unshift({
      path: [],
      message: `is an MCP client's file; ignored because they do not configure servers: ${shown.join(", ")}${rest}`,
    });
  return {
    tree: { mcpServers: servers },
    notes,
    originOf: ([first, name, ...more]) => {
      const origin = first === "mcpServers" ? origins.get(String(name)) : undefined;
      return origin === undefined ? [first, name, ...more].filter((step) => step !== undefined) : [...origin, ...more];
    },
  };
}

interface FoundServer {
  readonly path: Path;
  readonly name: string;
  readonly entry: Entries;
}

/** The servers in a container; Continue has a list of them. */
function serversAt(tree: unknown, path: Path): readonly FoundServer[] {
  const value = valueAt(tree, path);
  if (Array.isArray(value)) {
    return value.flatMap((entry: unknown, index) =>
      isServer(entry) ? [{ path: [...path, index], name: nameIn(entry) ?? String(index), entry }] : [],
    );
  }
  if (!isObject(value)) return [];
  return Object.entries(value).flatMap(([name, entry]) =>
    isServer(entry) ? [{ path: [...path, name], name, entry }] : [],
  );
}

function nameIn({ name }: Entries): string | undefined {
  return typeof name === "string" ? name : undefined;
}

/** Claude Code keeps the servers of each project under its folder. */
function projectPaths(tree: Entries): readonly Path[] {
  const { projects } = tree;
  return isObject(projects) ? Object.keys(projects).map((folder) => ["projects", folder, "mcpServers"]) : [];
}

const addressKeys = ["command", "url", "serverUrl", "httpUrl", "uri", "cmd"];

function isServer(entry: unknown): entry is Entries {
  return isObject(entry) && addressKeys.some((key) => Object.hasOwn(entry, key));
}

function freeName(name: string, taken: Entries): string {
  const wanted = reservedNames.has(name) ? `${name}-server` : name;
  for (let count = 1; ; count++) {
    const candidate = count === 1 ? wanted : `${wanted}-${count}`;
    if (!Object.hasOwn(taken, candidate)) return candidate;
  }
}

/** The keys of an entry that are read, or that say nothing about how to reach the server. */
const readKeys: ReadonlySet<string> = new Set([
  ...addressKeys,
  "args",
  "env",
  "environment",
  "envs",
  "env_vars",
  "cwd",
  "type",
  "transport",
  "headers",
  "http_headers",
  "env_http_headers",
  "bearer_token_env_var",
  "disabled",
  "enabled",
  "name",
  "source",
  "description",
]);

/** What replaces a setting that is left out. */
function ignoredHint(key: string): string {
  if (/tools$/iu.test(key)) return "; `policy.tools` says which tools clients see";
  return key === "envFile" ? "; put its variables into the environment of the gateway, or into `env`" : "";
}

/** Why a server of a client cannot be one of ours: its file is not ours to change, so the others are used without it. */
function unusable({ type, url }: Entries): string | undefined {
  if (type === "ws" || type === "websocket") return "WebSocket is not a transport of MCP that Headgate speaks";
  const scheme =
    typeof url === "string" ? /^(?<scheme>[a-z][a-z+.-]*):\/\//iu.exec(url)?.groups?.["scheme"] : undefined;
  return scheme === undefined || /^https?$/iu.test(scheme) ? undefined : `its URL begins with \`${scheme}://\``;
}

/** An entry with the names that `mcpServers` has for its members. */
function normalizeEntry(entry: Entries): Entries {
  const command = commandOf(entry);
  const url = entry["url"] ?? entry["serverUrl"] ?? entry["httpUrl"] ?? entry["uri"];
  const env = withVariables(textsOf(entry["env"] ?? entry["environment"] ?? entry["envs"] ?? command.env), entry);
  const headers = headersOf(entry);
  const type = typeOf(entry);
  const isOff = entry["disabled"] === true || entry["enabled"] === false;
  const { args, cwd } = { args: command.args ?? entry["args"], cwd: entry["cwd"] };
  const values = { command: command.command, args, env, cwd, type, url, headers, disabled: isOff ? true : undefined };
  return withoutUndefined(values);
}

/** The variables of a server, with those that Codex names in a list and takes from its own environment. */
function withVariables(env: Entries | undefined, { env_vars: names }: Entries): Entries | undefined {
  if (!Array.isArray(names)) return env;
  const passed = names.flatMap((name: unknown) => (typeof name === "string" ? [[name, `\${env:${name}}`]] : []));
  return { ...Object.fromEntries(passed), ...env };
}

/** Variables of VS Code and Cursor that are not of the environment, and references as opencode writes them. */
const editorVariable =
  /\$\{(?:input:(?<input>[^}]+)|(?<name>workspaceFolder|userHome|pathSeparator|\/))\}|(?<!\$)\{(?<reference>(?:env|file):[^{}]+)\}/u;

/** The value with each of them replaced by a folder or an environment variable. */
function withoutEditorVariables(value: unknown, folder: string): unknown {
  if (Array.isArray(value)) return value.map((inner) => withoutEditorVariables(inner, folder));
  if (isObject(value))
    return Object.fromEntries(
      Object.entries(value).map(([key, inner]) => [key, withoutEditorVariables(inner, folder)]),
    );
  if (typeof value !== "string") return value;
  return value.replaceAll(
    new RegExp(editorVariable, "gu"),
    (_, input: string | undefined, name: string | undefined, reference: string | undefined) => {
      if (reference !== undefined) return `\${${reference}}`;
      if (input !== undefined) return `\${env:${variableOf(input)}}`;
      if (name === "workspaceFolder") return folder;
      return name === "userHome" ? "${env:HOME}" : "/";
    },
  );
}

/** A command is a string; opencode has a list, and older versions of Zed an object. */
function commandOf(entry: Entries): { command?: unknown; args?: unknown; env?: unknown } {
  const command = entry["command"] ?? entry["cmd"];
  if (Array.isArray(command)) return { command: command[0], args: command.slice(1) };
  return isObject(command) ? { command: command["path"], args: command["args"], env: command["env"] } : { command };
}

function headersOf(entry: Entries): Entries | undefined {
  const given = textsOf(entry["headers"] ?? entry["http_headers"]);
  const byVariable = Object.entries(textsOf(entry["env_http_headers"]) ?? {}).map(([name, variable]) => [
    name,
    `\${env:${String(variable)}}`,
  ]);
  const token = entry["bearer_token_env_var"];
  const bearer = typeof token === "string" ? { Authorization: `Bearer \${env:${token}}` } : {};
  const all = { ...given, ...Object.fromEntries(byVariable), ...bearer };
  return Object.keys(all).length === 0 ? undefined : all;
}

/** The transport; `local` and `remote` of opencode do not say which one. */
function typeOf(entry: Entries): unknown {
  const type = entry["type"] ?? entry["transport"];
  return type === "local" || type === "remote" ? undefined : type;
}

/** Values as strings. */
function textsOf(value: unknown): Entries | undefined {
  if (!isObject(value)) return undefined;
  return Object.fromEntries(
    Object.entries(value)
      .filter(([, inner]) => inner !== null && typeof inner !== "object")
      .map(([key, inner]) => [key, String(inner)]),
  );
}

function variableOf(id: string): string {
  return id.toUpperCase().replaceAll(/\W+/gu, "_");
}
