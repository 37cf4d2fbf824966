import type { McpServer, McpServerFactory } from "@modelcontextprotocol/server";

import { AgentError } from "./errors.ts";
import { isJsonObject, typeName, type JsonObject } from "./json-rpc.ts";
import { assertServerKey } from "./tool-names.ts";

/** What the CLI asks before it calls a tool. */
export interface ToolPolicy {
  readonly name: string;
  readonly permission: "always_allow" | "always_ask" | "always_deny";
}

/** A server in this process: an instance for one agent at a time, or a factory that makes one for each. */
export type InProcessServerConfig = {
  readonly type: "sdk";
  /** The same as its key. */
  readonly name: string;
  /** How long the CLI waits for a call, in milliseconds; it ignores values under 1000. */
  readonly timeout?: number;
  readonly toolPolicies?: readonly ToolPolicy[];
} & (
  | { readonly instance: McpServer; readonly factory?: never }
  | { readonly factory: McpServerFactory; readonly instance?: never }
);

/** A server that the CLI starts or connects to itself. */
export type ExternalServerConfig =
  | {
      readonly type?: "stdio";
      readonly command: string;
      readonly args?: readonly string[];
      readonly env?: Readonly<Record<string, string>>;
    }
  | {
      readonly type: "sse" | "http";
      readonly url: string;
      readonly headers?: Readonly<Record<string, string>>;
    };

/** One entry of `mcpServers`. */
export type ServerConfig = InProcessServerConfig | ExternalServerConfig;

/** Servers by key: an object, or pairs such as those of a Map. */
export type ServerConfigs = Readonly<Record<string, ServerConfig>> | Iterable<readonly [string, ServerConfig]>;

/** Servers by key, checked, in the order they were given. */
export interface CheckedServers {
  readonly inProcess: ReadonlyMap<string, InProcessServerConfig>;
  readonly external: ReadonlyMap<string, ExternalServerConfig>;
}

/** Checks the servers of an agent; throws an error that names the key and what is wrong with it. */
export function checkServers(configs: ServerConfigs = {}): CheckedServers {
  const inProcess = new Map<string, InProcessServerConfig>();
  const external = new Map<string, ExternalServerConfig>();
  const entries = Symbol.iterator in configs ? [...configs] : Object.entries(configs);
  for (const [key, config] of entries) {
    assertServerKey(key);
    if (inProcess.has(key) || external.has(key)) {
      throw new AgentError("server_exists", `there are two servers with the key "${key}": give each its own`, {
        details: { key },
      });
    }
    if (!isJsonObject(config)) throw invalid(key, `its configuration is ${typeName(config)}, not an object`);
    if (config.type === "sdk") inProcess.set(key, checkedInProcess(key, config));
    else external.set(key, checkedExternal(key, config));
  }
  return { inProcess, external };
}

/** What the CLI is told of an in-process server: never the server itself. */
export function toSdkEntry({ name }: InProcessServerConfig): JsonObject {
  return { type: "sdk", name };
}

/** The settings of an in-process server that the CLI keeps; undefined if there are none. */
export function toSdkSettings({ timeout, toolPolicies }: InProcessServerConfig): JsonObject | undefined {
  if (timeout === undefined && toolPolicies === undefined) return undefined;
  return {
    ...(timeout !== undefined && { timeout }),
    ...(toolPolicies !== undefined && {
      tools: toolPolicies.map(({ name, permission }) => ({ name, permission_policy: permission })),
    }),
  };
}

function checkedInProcess(key: string, config: InProcessServerConfig): InProcessServerConfig {
  const { name, instance, factory } = config;
  if (name !== key) {
    throw invalid(
      key,
      `its name is ${JSON.stringify(name)}; the key is its name for the CLI, so both must be the same`,
    );
  }
  if ((instance === undefined) === (factory === undefined)) {
    throw invalid(key, "give it either an instance or a factory");
  }
  if (factory !== undefined) {
    if (typeof factory !== "function") throw invalid(key, `its factory is ${typeName(factory)}, not a function`);
    return config;
  }
  if (!isServer(instance)) {
    throw invalid(key, `its instance is ${typeName(instance)} and no MCP server; make one with createServer`);
  }
  return config;
}

function checkedExternal(key: string, config: ExternalServerConfig): ExternalServerConfig {
  const place = config.type === "sse" || config.type === "http" ? "url" : "command";
  const value: unknown = Reflect.get(config, place);
  if (config.type !== undefined && !["stdio", "sse", "http"].includes(config.type)) {
    throw invalid(key, `its type is ${JSON.stringify(config.type)}; there are sdk, stdio, sse and http`);
  }
  if (typeof value !== "string" || value === "") {
    throw invalid(key, `its ${place} is ${typeName(value)}, not a text`);
  }
  return config;
}

/** By what it can do, not by its class: programs may hold more than one copy of the SDK. */
function isServer(value: unknown): boolean {
  return typeof value === "object" && value !== null && "connect" in value && typeof value.connect === "function";
}

function invalid(key: string, problem: string): AgentError {
  return new AgentError("server_invalid", `server "${key}": ${problem}`, { details: { key } });
}
