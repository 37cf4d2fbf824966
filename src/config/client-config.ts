import { isObject } from "../lib/is-object.ts";
import type { ConfigFinding, Path } from "./issues.ts";
import { reservedNames } from "./routes.ts";

type Entries = Readonly<Record<string, unknown>>;

/** A file of an MCP client, in the form that a configuration takes. */
export interface ClientConfig {
  /** The servers under `mcpServers`; the given tree if it is not a client's file. */
  readonly tree: unknown;
  /** What was left out, and what has another name here. */
  readonly notes: readonly ConfigFinding[];
  /** Where a path of the new tree was in the file. */
  readonly originOf: (path: Path) => Path;
}

/** Keys that only our own configuration has. */
const ownKeys = ["listen", "routes", "upstream", "upstreams", "policy", "auth", "record", "audit", "drift"];

/** Where clients keep their servers: most clients, VS Code, VS Code's settings and opencode, Zed, Codex. */
const containers: readonly Path[] = [
  ["mcpServers"],
  ["servers"],
  ["mcp", "servers"],
  ["mcp"],
  ["context_servers"],
  ["mcp_servers"],
];

/** Reads the servers out of the configuration of an MCP client; everything else in it is left out with a note. */
export function fromClientConfig(tree: unknown): ClientConfig {
  const unchanged: ClientConfig = { tree, notes: [], originOf: (path) => path };
  if (!isObject(tree) || ownKeys.some((key) => Object.hasOwn(tree, key))) return unchanged;
  const found = [
    ...containers.flatMap((path) => serversAt(tree, path)),
    ...projectPaths(tree).flatMap((path) => serversAt(tree, path)),
  ];
  const isPlain = Object.keys(tree).every((key) => key === "mcpServers" || key === "$schema");
  const hasOwnNames = found.every(({ entry }) => typeof (entry["command"] ?? entry["url"]) === "string");
  if (found.length === 0 || (isPlain && hasOwnNames && isObject(tree["mcpServers"]))) return unchanged;
  const origins = new Map<string, Path>();
  const servers: Record<string, unknown> = {};
  for (const { path, name, entry } of found) {
    const free = freeName(name, servers);
    servers[free] = normalizeEntry(entry);
    origins.set(free, path);
  }
  const used = new Set(found.map(({ path }) => path[0]));
  const ignored = Object.keys(tree).filter((key) => !used.has(key) && key !== "$schema");
  const shown = ignored.slice(0, 5).map((key) => `\`${key}\``);
  const rest = ignored.length > shown.length ? ` and ${ignored.length - shown.length} more` : "";
  const notes =
    ignored.length === 0
      ? []
      : [{ path: [], message: `the file of an MCP client; ignored, as not about servers: ${shown.join(", ")}${rest}` }];
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
  let value = tree;
  for (const step of path) value = isObject(value) ? value[String(step)] : undefined;
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

/** An entry with the names that `mcpServers` has for its members. */
function normalizeEntry(entry: Entries): Entries {
  const command = commandOf(entry);
  const url = entry["url"] ?? entry["serverUrl"] ?? entry["httpUrl"] ?? entry["uri"];
  const env = textsOf(entry["env"] ?? entry["environment"] ?? entry["envs"] ?? command.env);
  const headers = headersOf(entry);
  const type = typeOf(entry);
  const isOff = entry["disabled"] === true || entry["enabled"] === false;
  const { args, cwd } = { args: command.args ?? entry["args"], cwd: entry["cwd"] };
  const values = { command: command.command, args, env, cwd, type, url, headers, disabled: isOff ? true : undefined };
  return Object.fromEntries(Object.entries(values).filter(([, value]) => value !== undefined));
}

/** A command is a text; opencode has a list, and older versions of Zed an object. */
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

const transportTypes: Readonly<Record<string, string | undefined>> = { local: undefined, remote: undefined };

function typeOf(entry: Entries): unknown {
  const type = entry["type"] ?? entry["transport"];
  return typeof type === "string" && Object.hasOwn(transportTypes, type) ? transportTypes[type] : type;
}

/** Values as texts, with the inputs that VS Code asks for read from the environment. */
function textsOf(value: unknown): Entries | undefined {
  if (!isObject(value)) return undefined;
  return Object.fromEntries(
    Object.entries(value)
      .filter(([, inner]) => inner !== null && typeof inner !== "object")
      .map(([key, inner]) => [
        key,
        String(inner).replaceAll(/\$\{input:([^}]+)\}/gu, (_, id: string) => `\${env:${variableOf(id)}}`),
      ]),
  );
}

function variableOf(id: string): string {
  return id.toUpperCase().replaceAll(/\W+/gu, "_");
}
