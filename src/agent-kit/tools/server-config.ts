import type { McpServer, McpServerFactory } from "@modelcontextprotocol/server";

import { isObject } from "../../lib/is-object.ts";
import { AgentError } from "../errors.ts";
import { type UnknownRecord, typeName } from "../json-rpc.ts";
import { assertServerKey, toolRule } from "./tool.ts";

/**
 * What the CLI does before it calls a tool. `always_allow` needs a server that the agent starts with: the CLI cannot be
 * told later.
 */
export interface ToolPolicy {
  readonly name: string;
  readonly permission: "always_allow" | "always_ask" | "always_deny";
}

/** A server in this process: an instance for one agent at a time, or a factory that makes one for each agent. */
export type InProcessServerConfig = {
  readonly type: "sdk";
  /** Must equal its key. */
  readonly name: string;
  /** How long the CLI waits for a call, in milliseconds; it ignores values under 1000. */
  readonly timeout?: number;
  readonly toolPolicies?: readonly ToolPolicy[];
} & (
  | { readonly instance: McpServer; readonly factory?: never }
  | { readonly factory: McpServerFactory; readonly instance?: never }
);

/** A server that the CLI starts or connects to. */
export type ExternalServerConfig =
  | {
      readonly type?: "stdio";
      readonly command: string;
      readonly args?: readonly string[];
      readonly env?: Readonly<Record<string, string>>;
    }
  | { readonly type: "sse" | "http"; readonly url: string; readonly headers?: Readonly<Record<string, string>> };

/** One entry of `mcpServers`. */
export type ServerConfig = InProcessServerConfig | ExternalServerConfig;

/** Servers by key: an object, or pairs like those of a Map. */
export type ServerConfigs = Readonly<Record<string, ServerConfig>> | Iterable<readonly [string, ServerConfig]>;

/** Checked servers by key, in the given order. */
export interface CheckedServers {
  readonly inProcess: ReadonlyMap<string, InProcessServerConfig>;
  readonly external: ReadonlyMap<string, ExternalServerConfig>;
}

/** Checks the servers of an agent; throws an error that names the key and the problem. */
export function checkServers(configs: ServerConfigs = {}): CheckedServers {
  const inProcess = new Map<string, InProcessServerConfig>();
  const external = new Map<string, ExternalServerConfig>();
  const entries = Symbol.iterator in configs ? [...configs] : Object.entries(configs);
  for (const [key, config] of entries) {
    assertServerKey(key);
    if (inProcess.has(key) || external.has(key)) {
      throw new AgentError("server_exists", `the server key "${key}" is used twice`, { details: { key } });
    }
    if (!isObject(config)) throw invalid(key, `its configuration is ${typeName(config)}, not an object`);
    if (config.type === "sdk") inProcess.set(key, checkedInProcess(key, config));
    else external.set(key, checkedExternal(key, config));
  }
  return { inProcess, external };
}

/** An in-process server as the CLI knows it. */
export function toSdkEntry({ name }: InProcessServerConfig): UnknownRecord {
  return { type: "sdk", name };
}

/** The settings of an in-process server for the CLI; undefined if there are none. */
export function toSdkSettings({ timeout, toolPolicies }: InProcessServerConfig): UnknownRecord | undefined {
  if (timeout === undefined && toolPolicies === undefined) return undefined;
  return {
    ...(timeout !== undefined && { timeout }),
    ...(toolPolicies !== undefined && {
      tools: toolPolicies.map(({ name, permission }) => ({ name, permission_policy: permission })),
    }),
  };
}

/** The rules that name the tools with a policy. */
export function toolsWithPolicy(
  servers: ReadonlyMap<string, InProcessServerConfig>,
  wanted: ToolPolicy["permission"],
): readonly string[] {
  return [...servers].flatMap(([key, { toolPolicies = [] }]) =>
    toolPolicies.filter(({ permission }) => permission === wanted).map(({ name }) => toolRule(key, name)),
  );
}

function checkedInProcess(key: string, config: InProcessServerConfig): InProcessServerConfig {
  const { name, instance, factory } = config;
  if (name !== key) throw invalid(key, `its name is ${JSON.stringify(name)}, but it must equal the key`);
  if ((instance === undefined) === (factory === undefined)) {
    throw invalid(key, "it needs either an instance or a factory");
  }
  if (factory !== undefined) {
    if (typeof factory !== "function") throw invalid(key, `its factory is ${typeName(factory)}, not a function`);
    return config;
  }
  if (!isServer(instance)) {
    throw invalid(key, `its instance is ${typeName(instance)} and not an MCP server; make one with createServer`);
  }
  return config;
}

function checkedExternal(key: string, config: ExternalServerConfig): ExternalServerConfig {
  const place = config.type === "sse" || config.type === "http" ? "url" : "command";
  const value: unknown = Reflect.get(config, place);
  if (config.type !== undefined && !["stdio", "sse", "http"].includes(config.type)) {
    throw invalid(key, `its type is ${JSON.stringify(config.type)}, not sdk, stdio, sse or http`);
  }
  if (typeof value !== "string" || value === "") throw invalid(key, `its ${place} is ${typeName(value)}, not a string`);
  return config;
}

/** Not by `instanceof`: a program may hold more than one copy of the SDK. */
function isServer(value: unknown): boolean {
  return typeof value === "object" && value !== null && "connect" in value && typeof value.connect === "function";
}

function invalid(key: string, problem: string): AgentError {
  return new AgentError("server_invalid", `server "${key}": ${problem}`, { details: { key } });
}
