import type { JSONRPCMessage, McpServer, McpServerFactory } from "@modelcontextprotocol/server";
import { serveStdio } from "@modelcontextprotocol/server/stdio";

import { type SetTimer, systemTimer } from "../core/exchange.ts";
import { endsWithin } from "./deadline.ts";
import { AgentError, type OnWarning, thrownMessage } from "./errors.ts";
import { ack, classifyMessage, errorText, idOf, isJsonObject, type JsonObject, typeName } from "./json-rpc.ts";
import { checkServers, type InProcessServerConfig, type ServerConfigs, toSdkSettings } from "./server-config.ts";
import { ControlTransport } from "./control-transport.ts";
import { nameWarning } from "./tool-names.ts";
import { onToolAdded, whenIdle } from "./server.ts";
import { newestLegacy } from "../protocol/revisions.ts";

/** The answer to a control request: its body as JSON text, or why there is none. */
export type ControlAnswer =
  | { readonly ok: true; readonly json: string }
  | { readonly ok: false; readonly error: string };

/** What a bridge needs of the host. */
export interface BridgeOptions {
  /** The servers to begin with; external ones are none of the bridge's business and left out. */
  readonly servers?: ServerConfigs;
  /** Sends a control request to the CLI; resolves when it is written. */
  readonly send: (request: JsonObject) => Promise<void>;
  readonly onWarning?: OnWarning;
  /** How long `close` and `remove` wait for handlers that were aborted; 5 seconds by default. */
  readonly closeTimeoutMs?: number;
  readonly setTimer?: SetTimer;
}

/** In-process servers behind a control channel. */
export interface ControlBridge extends AsyncDisposable {
  /** The members of the host's `initialize` request that announce the servers. */
  readonly announcement: () => JsonObject;
  readonly has: (key: string) => boolean;
  /** Connects one more server; rejects if its instance is in use elsewhere. */
  readonly add: (key: string, server: InProcessServerConfig) => Promise<void>;
  /** Ends a server's connection and waits a while for its handlers; the server itself stays as it is. */
  readonly remove: (key: string) => Promise<void>;
  /** Answers the body of an `mcp_message` request of the CLI. Never rejects. */
  readonly answer: (request: JsonObject) => Promise<ControlAnswer>;
  /** Answers a message that is still text, for hosts that hold no parsed one. Never rejects. */
  readonly answerText: (key: string, text: string) => Promise<string>;
  /** Ends all connections, which aborts the calls that run, and waits a while for their handlers. */
  readonly close: () => Promise<void>;
}

/** Connects in-process servers to a control channel that the host owns; resolves when all are ready to answer. */
export async function bridgeControlChannel(options: BridgeOptions): Promise<ControlBridge> {
  const { send, onWarning = () => {}, closeTimeoutMs = 5000, setTimer = systemTimer } = options;
  const connections = new Map<string, ServerConnection>();

  async function add(key: string, server: InProcessServerConfig): Promise<void> {
    if (connections.has(key)) {
      throw new AgentError("server_exists", `server "${key}" is connected already: remove it first`, {
        details: { key },
      });
    }
    connections.set(key, await connectServer(key, server, send, onWarning));
  }

  async function remove(key: string): Promise<void> {
    const connection = connections.get(key);
    connections.delete(key);
    if (connection === undefined) return;
    if (await endsWithin(connection.close(), closeTimeoutMs, setTimer)) return;
    const text = `server "${key}": handlers still run ${closeTimeoutMs} ms after they were aborted; let them heed their signal`;
    onWarning(new AgentError("server_failed", text, { details: { key } }));
  }

  async function close(): Promise<void> {
    await Promise.all([...connections.keys()].map(remove));
  }

  async function message(key: string, received: unknown): Promise<string> {
    const transport = connections.get(key)?.transport;
    if (transport !== undefined) return transport.receive(received);
    // A request is told that nobody is there to answer it; for anything else no answer is due.
    if (classifyMessage(received).kind !== "request") return ack;
    return errorText(idOf(received), -32601, `Server '${key}' not found`, { code: "server_not_found" });
  }

  const bridge: ControlBridge = {
    announcement: () => announcementOf(connections),
    has: (key) => connections.has(key),
    add,
    remove,
    async answer({ server_name: key, message: received }) {
      if (typeof key !== "string") return refused("server_name", "a text", key);
      if (!isJsonObject(received)) return refused("message", "an object", received);
      return { ok: true, json: `{"mcp_response":${await message(key, received)}}` };
    },
    async answerText(key, text) {
      let received: unknown;
      try {
        received = JSON.parse(text);
      } catch (error) {
        return errorText(undefined, -32700, "Parse error", { problem: thrownMessage(error) });
      }
      return message(key, received);
    },
    close,
    [Symbol.asyncDispose]: close,
  };
  try {
    for (const [key, server] of checkServers(options.servers).inProcess) await add(key, server);
  } catch (error) {
    await close();
    throw error;
  }
  return bridge;
}

function announcementOf(connections: ReadonlyMap<string, ServerConnection>): JsonObject {
  const settings = [...connections].flatMap(([key, { server }]) => {
    const own = toSdkSettings(server);
    return own === undefined ? [] : [[key, own] as const];
  });
  return {
    sdkMcpServers: [...connections.keys()],
    ...(settings.length > 0 && { sdkMcpServerConfigs: Object.fromEntries(settings) }),
  };
}

function refused(field: string, expected: string, received: unknown): ControlAnswer {
  return {
    ok: false,
    error: `mcp_message needs ${expected} in "${field}", but it is ${typeName(received)}`,
  };
}

/** One in-process server with its end of the control channel. */
export interface ServerConnection {
  readonly server: InProcessServerConfig;
  readonly transport: ControlTransport;
  /**
   * Aborts the calls that run and waits for their handlers. An instance stays as it is; what a factory made is closed.
   */
  readonly close: () => Promise<void>;
}

/** Connects a server to the control channel; rejects if its instance is in use. */
async function connectServer(
  key: string,
  server: InProcessServerConfig,
  send: (request: JsonObject) => Promise<void>,
  onWarning: OnWarning,
): Promise<ServerConnection> {
  const transport = new ControlTransport(async (message: JSONRPCMessage) =>
    send({ subtype: "mcp_message", server_name: key, message }),
  );
  const unwatch: (() => void)[] = [];
  const connected: object[] = [];
  const watch = (instance: object): void => {
    connected.push(instance);
    unwatch.push(
      onToolAdded(instance, (toolName) => {
        const warning = nameWarning(key, toolName);
        if (warning !== undefined) onWarning(warning);
      }),
    );
  };
  const { factory, instance } = server;
  let end: () => Promise<void>;
  if (factory === undefined) {
    await connectInstance(key, instance, transport);
    watch(instance);
    end = async () => transport.close();
  } else {
    const made: McpServerFactory = async (context) => {
      const product = await factory(context);
      watch(product);
      return product;
    };
    // It tells the revision by the first message, so that choice stays with the SDK.
    const handle = serveStdio(made, {
      transport,
      onerror: (error) => {
        const text = `server "${key}": ${error.message}`;
        onWarning(new AgentError("server_failed", text, { details: { key }, cause: error }));
      },
    });
    end = async () => handle.close();
  }
  return {
    server,
    transport,
    async close() {
      for (const stop of unwatch) stop();
      await end();
      await Promise.all(connected.map(whenIdle));
    },
  };
}

async function connectInstance(key: string, instance: McpServer, transport: ControlTransport): Promise<void> {
  try {
    // The SDK refuses a second connection too, but only after it has changed this one.
    if (instance.isConnected()) throw new Error("the server is connected");
    await instance.connect(transport);
  } catch (error) {
    throw new AgentError(
      "instance_in_use",
      `server "${key}": its instance is in use by another agent or transport; give the agent a factory that makes one server for each`,
      { details: { key }, cause: error },
    );
  }
}

/**
 * Makes the handshake with each server beforehand and returns the results as the CLI takes them, by key. A server that
 * fails is left out; the CLI then asks it itself.
 */
export async function captureManifests(bridge: ControlBridge, keys: Iterable<string>): Promise<JsonObject> {
  const captured = await Promise.all([...keys].map(async (key) => [key, await capture(bridge, key)] as const));
  return Object.fromEntries(captured.filter(([, manifest]) => manifest !== undefined));
}

async function capture(bridge: ControlBridge, key: string): Promise<JsonObject | undefined> {
  const ask = async (message: JsonObject): Promise<JsonObject | undefined> => {
    const reply: unknown = JSON.parse(await bridge.answerText(key, JSON.stringify({ jsonrpc: "2.0", ...message })));
    const result = isJsonObject(reply) ? reply["result"] : undefined;
    return isJsonObject(result) ? result : undefined;
  };
  const initializeResult = await ask({
    id: "manifest-1",
    method: "initialize",
    // The revision that the CLI asks for; another one makes it ignore the manifest.
    params: {
      protocolVersion: newestLegacy,
      capabilities: {},
      clientInfo: { name: "headgate", version: "1" },
    },
  });
  if (initializeResult === undefined) return undefined;
  await ask({ method: "notifications/initialized" });
  const { capabilities } = initializeResult;
  const hasTools = isJsonObject(capabilities) && capabilities["tools"] !== undefined;
  const toolsListResult = hasTools ? await ask({ id: "manifest-2", method: "tools/list" }) : undefined;
  // A list of several pages would hide the tools of the others.
  const isWhole = toolsListResult !== undefined && toolsListResult["nextCursor"] === undefined;
  return { initializeResult, ...(isWhole && { toolsListResult }) };
}
