import type { SetTimer } from "../core/exchange.ts";
import type { ControlBridge } from "./control-bridge.ts";
import type { ControlChannel } from "./control-channel.ts";
import { AgentError } from "./errors.ts";
import { isJsonObject, type JsonObject } from "./json-rpc.ts";
import {
  checkServers,
  toSdkSettings,
  toSdkEntry,
  type CheckedServers,
  type ServerConfig,
  type ServerConfigs,
} from "./server-config.ts";

/** How a server stands with the CLI. */
export interface ServerStatus {
  readonly name: string;
  /** Such as `pending`, `connected`, `failed` or `disabled`. */
  readonly status: string;
  readonly error: string | undefined;
  readonly raw: JsonObject;
}

/** What a change of servers came to. */
export interface ServerChange {
  readonly added: readonly string[];
  readonly removed: readonly string[];
  /** By key, for servers that the CLI could not connect. */
  readonly errors: JsonObject;
}

/** The servers of a running agent. */
export interface AgentServers {
  /** Adds servers, and puts them in the place of those with the same key. */
  add(servers: ServerConfigs): Promise<ServerChange>;
  /** Removes servers that this agent added or started with in this process; rejects for a key that is none of them. */
  remove(...keys: readonly string[]): Promise<ServerChange>;
  /** Switches a server off or on again. */
  toggle(key: string, enabled: boolean): Promise<void>;
  /** How all servers stand now; straight after the start the list may be empty. */
  status(): Promise<readonly ServerStatus[]>;
  /** Resolves when the CLI has connected a server; rejects when that failed or takes too long. */
  ready(key: string, timeoutMs?: number): Promise<ServerStatus>;
}

interface AgentServersDeps {
  readonly channel: ControlChannel;
  readonly bridge: ControlBridge;
  readonly initial: CheckedServers;
  readonly setTimer: SetTimer;
}

const pollMs = 50;
const readyTimeoutMs = 30_000;

/** Makes the part of an agent that looks after its servers. */
export function createAgentServers({ channel, bridge, initial, setTimer }: AgentServersDeps): AgentServers {
  // Those that mcp_set_servers speaks of: it names all of them each time, and what it leaves out goes.
  let current = new Map<string, ServerConfig>(initial.inProcess);

  async function set(next: Map<string, ServerConfig>): Promise<ServerChange> {
    const servers = Object.fromEntries([...next].map(([key, config]) => [key, wireConfig(config)]));
    const { added, removed, errors } = await channel.request({ subtype: "mcp_set_servers", servers });
    current = next;
    return {
      added: stringsOf(added),
      removed: stringsOf(removed),
      errors: isJsonObject(errors) ? errors : {},
    };
  }

  async function drop(keys: Iterable<string>): Promise<ServerChange> {
    const gone = new Set(keys);
    const change = await set(new Map([...current].filter(([key]) => !gone.has(key))));
    for (const key of gone) await bridge.remove(key);
    return change;
  }

  async function status(): Promise<readonly ServerStatus[]> {
    const { mcpServers } = await channel.request({ subtype: "mcp_status" });
    return Array.isArray(mcpServers) ? mcpServers.filter(isJsonObject).map(statusOf) : [];
  }

  return {
    async add(servers) {
      const { inProcess, external } = checkServers(servers);
      const given = new Map<string, ServerConfig>([...inProcess, ...external]);
      // The CLI keeps a server whose configuration looks the same, so what is replaced goes first.
      const replaced = [...given.keys()].filter((key) => current.has(key));
      const dropped = replaced.length > 0 ? await drop(replaced) : undefined;
      for (const [key, server] of inProcess) await bridge.add(key, server);
      const change = await set(new Map([...current, ...given]));
      return { ...change, removed: [...(dropped?.removed ?? []), ...change.removed] };
    },
    async remove(...keys) {
      const unknown = keys.find((key) => !current.has(key));
      if (unknown !== undefined) throw notFound(unknown, [...current.keys()]);
      return drop(keys);
    },
    async toggle(key, enabled) {
      await channel.request({ subtype: "mcp_toggle", serverName: key, enabled });
    },
    status,
    async ready(key, timeoutMs = readyTimeoutMs) {
      let late = false;
      const stopTimer = setTimer(timeoutMs, () => {
        late = true;
      });
      try {
        for (;;) {
          const found = (await status()).find(({ name }) => name === key);
          if (found?.status === "connected") return found;
          if (late || found?.status === "failed") throw notReady(key, found);
          await pause(pollMs, setTimer);
        }
      } finally {
        stopTimer();
      }
    },
  };
}

function wireConfig(config: ServerConfig): JsonObject {
  return config.type === "sdk" ? { ...toSdkEntry(config), ...toSdkSettings(config) } : config;
}

function statusOf(raw: JsonObject): ServerStatus {
  const { name, status, error } = raw;
  return {
    name: String(name),
    status: String(status),
    error: typeof error === "string" ? error : undefined,
    raw,
  };
}

function stringsOf(value: unknown): readonly string[] {
  return Array.isArray(value) ? value.map(String) : [];
}

async function pause(milliseconds: number, setTimer: SetTimer): Promise<void> {
  const { promise, resolve } = Promise.withResolvers<void>();
  setTimer(milliseconds, resolve);
  await promise;
}

function notFound(key: string, known: readonly string[]): AgentError {
  const there = known.length > 0 ? `there are ${known.join(", ")}` : "there is none";
  return new AgentError("server_not_found", `this agent has no server "${key}" that could be removed; ${there}`, {
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
