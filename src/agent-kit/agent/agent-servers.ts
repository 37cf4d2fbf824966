import { systemTimer } from "../../lib/clock.ts";
import { isObject } from "../../lib/is-object.ts";
import { sleep } from "../../lib/timeout.ts";
import { newestLegacy } from "../../protocol/revisions.ts";
import type { ControlBridge } from "../control/control-bridge.ts";
import type { ControlChannel } from "../control/control-channel.ts";
import { AgentError, type OnWarning } from "../errors.ts";
import { thrownMessage } from "../../lib/thrown-message.ts";
import type { UnknownRecord } from "../json-rpc.ts";
import {
  type CheckedServers,
  checkServers,
  type ServerConfig,
  type ServerConfigs,
  toolsWithPolicy,
  toSdkEntry,
  toSdkSettings,
} from "../tools/server-config.ts";

/** The state of a server in the CLI. */
export interface ServerStatus {
  readonly name: string;
  /** For example `pending`, `connected`, `failed` or `disabled`. */
  readonly status: string;
  readonly error: string | undefined;
  readonly raw: UnknownRecord;
}

/** The outcome of adding or removing servers. */
export interface ServerChange {
  readonly added: readonly string[];
  readonly removed: readonly string[];
  /** By key, for servers that the CLI failed to connect. */
  readonly errors: UnknownRecord;
}

/** The servers of a running agent. */
export interface AgentServers {
  /** Adds servers, all or none; replaces those with the same key. Changes run one after the other. */
  add(servers: ServerConfigs): Promise<ServerChange>;
  /** Removes servers that were added or that run in this process; rejects for any other key. */
  remove(...keys: readonly string[]): Promise<ServerChange>;
  /** Disables or enables a server. */
  toggle(key: string, enabled: boolean): Promise<void>;
  /** The state of all servers; may be empty right after the start. */
  status(): Promise<readonly ServerStatus[]>;
  /** Resolves when the CLI has connected a server; rejects on failure and after 30 seconds, or the given timeout. */
  ready(key: string, timeoutMs?: number): Promise<ServerStatus>;
}

interface AgentServersDeps {
  readonly channel: ControlChannel;
  readonly bridge: ControlBridge;
  readonly initial: CheckedServers;
  readonly onWarning: OnWarning;
}

const pollMs = 50;
const readyTimeoutMs = 30_000;

/** Makes the `servers` of an agent. */
export function createAgentServers({ channel, bridge, initial, onWarning }: AgentServersDeps): AgentServers {
  // mcp_set_servers replaces the whole set, so it is kept here.
  let current = new Map<string, ServerConfig>(initial.inProcess);

  async function set(next: Map<string, ServerConfig>): Promise<ServerChange> {
    const servers = Object.fromEntries([...next].map(([key, config]) => [key, wireConfig(config)]));
    const { added, removed, errors } = await channel.request({ subtype: "mcp_set_servers", servers });
    current = next;
    return { added: stringsOf(added), removed: stringsOf(removed), errors: isObject(errors) ? errors : {} };
  }

  async function drop(keys: Iterable<string>): Promise<ServerChange> {
    const gone = new Set(keys);
    const change = await set(new Map([...current].filter(([key]) => !gone.has(key))));
    for (const key of gone) await bridge.remove(key);
    return change;
  }

  async function status(): Promise<readonly ServerStatus[]> {
    const { mcpServers } = await channel.request({ subtype: "mcp_status" });
    return Array.isArray(mcpServers) ? mcpServers.filter(isObject).map(statusOf) : [];
  }

  let last: Promise<unknown> = Promise.resolve();
  /** Runs changes one after the other, because each replaces the whole set. */
  async function inTurn<Result>(change: () => Promise<Result>): Promise<Result> {
    const done = last.then(change, change);
    last = done.catch(() => {});
    return done;
  }

  async function add({ inProcess, external }: CheckedServers): Promise<ServerChange> {
    const given = new Map<string, ServerConfig>([...inProcess, ...external]);
    const before = current;
    const connected: string[] = [];
    // The CLI ignores a server whose configuration looks the same, so replaced ones are removed first.
    const replaced = [...given.keys()].filter((key) => before.has(key));
    try {
      const dropped = replaced.length > 0 ? await drop(replaced) : undefined;
      for (const [key, server] of inProcess) {
        await bridge.add(key, server);
        connected.push(key);
      }
      const change = await set(new Map([...current, ...given]));
      return { ...change, removed: [...(dropped?.removed ?? []), ...change.removed] };
    } catch (error) {
      for (const key of connected) await bridge.remove(key);
      await restore(before);
      throw error;
    }
  }

  /** Restores the servers that a failed change removed. */
  async function restore(before: Map<string, ServerConfig>): Promise<void> {
    if (current === before) return;
    try {
      for (const [key, config] of before) {
        if (config.type === "sdk" && !bridge.has(key)) await bridge.add(key, config);
      }
      await set(before);
    } catch (error) {
      const text = `servers could not be restored after a failed change: ${thrownMessage(error)}`;
      onWarning(new AgentError("server_failed", text, { cause: error }));
    }
  }

  return {
    async add(servers) {
      const checked = checkServers(servers);
      rejectAlwaysAllow(checked);
      return inTurn(async () => add(checked));
    },
    async remove(...keys) {
      return inTurn(async () => {
        const unknown = keys.find((key) => !current.has(key));
        if (unknown !== undefined) throw notFound(unknown, [...current.keys()]);
        return drop(keys);
      });
    },
    async toggle(key, enabled) {
      await channel.request({ subtype: "mcp_toggle", serverName: key, enabled });
    },
    status,
    async ready(key, timeoutMs = readyTimeoutMs) {
      const deadline = performance.now() + timeoutMs;
      for (;;) {
        const found = (await status()).find(({ name }) => name === key);
        if (found?.status === "connected") return found;
        if (found?.status === "failed" || performance.now() > deadline) throw notReady(key, found);
        await sleep(pollMs, systemTimer);
      }
    },
  };
}

/** The CLI takes its list of allowed tools at the start only. */
function rejectAlwaysAllow({ inProcess }: CheckedServers): void {
  const [rule] = toolsWithPolicy(inProcess, "always_allow");
  if (rule === undefined) return;
  throw new AgentError(
    "server_invalid",
    `always_allow of ${rule} has no effect on a running agent; put the tool into allowedTools of startAgent`,
    { details: { rule } },
  );
}

function wireConfig(config: ServerConfig): UnknownRecord {
  return config.type === "sdk" ? { ...toSdkEntry(config), ...toSdkSettings(config) } : config;
}

function statusOf(raw: UnknownRecord): ServerStatus {
  const { name, status, error } = raw;
  return { name: String(name), status: String(status), error: typeof error === "string" ? error : undefined, raw };
}

function stringsOf(value: unknown): readonly string[] {
  return Array.isArray(value) ? value.map(String) : [];
}

function notFound(key: string, known: readonly string[]): AgentError {
  const others = known.length > 0 ? known.join(", ") : "none";
  return new AgentError("server_not_found", `this agent has no removable server "${key}"; removable: ${others}`, {
    details: { key, known },
  });
}

function notReady(key: string, found: ServerStatus | undefined): AgentError {
  const state = found === undefined ? "the CLI does not know it" : `it is ${found.status}`;
  const reason = found?.error === undefined ? "" : `: ${found.error}`;
  return new AgentError("server_not_found", `server "${key}" is not connected; ${state}${reason}`, {
    details: { key, status: found?.status },
  });
}

/**
 * Initializes each server and returns the results by key, in the form of `sdkMcpServerManifests`. A server that fails
 * is left out; the CLI then initializes it itself.
 */
export async function captureManifests(bridge: ControlBridge, keys: Iterable<string>): Promise<UnknownRecord> {
  const captured = await Promise.all([...keys].map(async (key) => [key, await capture(bridge, key)] as const));
  return Object.fromEntries(captured.filter(([, manifest]) => manifest !== undefined));
}

async function capture(bridge: ControlBridge, key: string): Promise<UnknownRecord | undefined> {
  const send = async (message: UnknownRecord): Promise<UnknownRecord | undefined> => {
    const reply: unknown = JSON.parse(await bridge.answerText(key, JSON.stringify({ jsonrpc: "2.0", ...message })));
    const result = isObject(reply) ? reply["result"] : undefined;
    return isObject(result) ? result : undefined;
  };
  const initializeResult = await send({
    id: "manifest-1",
    method: "initialize",
    // The revision that the CLI uses; it ignores a manifest of another one.
    params: { protocolVersion: newestLegacy, capabilities: {}, clientInfo: { name: "headgate", version: "1" } },
  });
  if (initializeResult === undefined) return undefined;
  await send({ method: "notifications/initialized" });
  const { capabilities } = initializeResult;
  const hasTools = isObject(capabilities) && capabilities["tools"] !== undefined;
  const toolsListResult = hasTools ? await send({ id: "manifest-2", method: "tools/list" }) : undefined;
  // With only the first of several pages, the CLI would not see the tools of the others.
  const isComplete = toolsListResult !== undefined && toolsListResult["nextCursor"] === undefined;
  return { initializeResult, ...(isComplete && { toolsListResult }) };
}
