import type { JSONRPCMessage, McpServer, McpServerFactory } from "@modelcontextprotocol/server";
import { serveStdio } from "@modelcontextprotocol/server/stdio";

import { systemTimer } from "../../lib/clock.ts";
import { isObject } from "../../lib/is-object.ts";
import { settlesWithin } from "../../lib/timeout.ts";
import { ControlTransport } from "./control-transport.ts";
import { AgentError, type OnWarning } from "../errors.ts";
import { thrownMessage } from "../../lib/thrown-message.ts";
import { ack, classifyMessage, errorText, idOf, type UnknownRecord, typeName } from "../json-rpc.ts";
import { checkServers, type InProcessServerConfig, type ServerConfigs, toSdkSettings } from "../tools/server-config.ts";
import { onToolAdded, whenIdle } from "../tools/server.ts";
import { nameWarning } from "../tools/tool.ts";

/** The answer to a control request: its body as JSON text, or an error text. */
export type ControlAnswer =
  | { readonly ok: true; readonly json: string }
  | { readonly ok: false; readonly error: string };

/** What a bridge needs from its host. */
export interface BridgeOptions {
  /** The servers to start with; external ones are ignored. */
  readonly servers?: ServerConfigs;
  /** Sends a control request to the CLI; resolves when it is written. */
  readonly send: (request: UnknownRecord) => Promise<void>;
  /** Called with problems that end nothing. */
  readonly onWarning?: OnWarning;
  /** How long `close` and `remove` wait for aborted tools; 5 seconds by default. */
  readonly closeTimeoutMs?: number;
}

/** In-process servers connected to a control channel. */
export interface ControlBridge extends AsyncDisposable {
  /** The members of the host's `initialize` request that announce the servers. */
  readonly announcement: () => UnknownRecord;
  readonly has: (key: string) => boolean;
  /** Connects another server; rejects if its instance is in use elsewhere. */
  readonly add: (key: string, server: InProcessServerConfig) => Promise<void>;
  /** Closes a server's connection and waits for its running tools. The server itself stays usable. */
  readonly remove: (key: string) => Promise<void>;
  /** Answers the body of an `mcp_message` request of the CLI. Never rejects. */
  readonly answer: (request: UnknownRecord) => Promise<ControlAnswer>;
  /** Answers an MCP message given as JSON text. Never rejects. */
  readonly answerText: (key: string, text: string) => Promise<string>;
  /** Closes all connections, which aborts running calls, and waits for their tools. */
  readonly close: () => Promise<void>;
}

/**
 * Connects in-process servers to a control channel that the host owns; for hosts that run the CLI themselves. Resolves
 * when all servers are ready to answer.
 *
 * @example
 * ```ts
 * await using bridge = await bridgeControlChannel({ servers, send: writeControlRequest });
 * // For every mcp_message request of the CLI:
 * const answer = await bridge.answer(request);
 * ```
 */
export async function bridgeControlChannel(options: BridgeOptions): Promise<ControlBridge> {
  const { send, onWarning = () => {}, closeTimeoutMs = 5000 } = options;
  const connections = new Map<string, ServerConnection>();

  async function add(key: string, server: InProcessServerConfig): Promise<void> {
    if (connections.has(key)) {
      const text = `server "${key}" is already connected: remove it first`;
      throw new AgentError("server_exists", text, { details: { key } });
    }
    connections.set(key, await connectServer(key, server, send, onWarning));
  }

  async function remove(key: string): Promise<void> {
    const connection = connections.get(key);
    connections.delete(key);
    if (connection === undefined) return;
    if (await settlesWithin(connection.close(), closeTimeoutMs, systemTimer)) return;
    const text = `server "${key}": tools still run ${closeTimeoutMs} ms after they were aborted; make them heed their signal`;
    onWarning(new AgentError("server_failed", text, { details: { key } }));
  }

  async function close(): Promise<void> {
    await Promise.all([...connections.keys()].map(remove));
  }

  async function receive(key: string, message: unknown): Promise<string> {
    const transport = connections.get(key)?.transport;
    if (transport !== undefined) return transport.receive(message);
    // Only a request gets an answer.
    if (classifyMessage(message).kind !== "request") return ack;
    return errorText(idOf(message), -32601, `Server '${key}' not found`, { code: "server_not_found" });
  }

  const bridge: ControlBridge = {
    announcement: () => announcementOf(connections),
    has: (key) => connections.has(key),
    add,
    remove,
    async answer({ server_name: key, message }) {
      if (typeof key !== "string") return invalidField("server_name", "a string", key);
      if (!isObject(message)) return invalidField("message", "an object", message);
      return { ok: true, json: `{"mcp_response":${await receive(key, message)}}` };
    },
    async answerText(key, text) {
      let message: unknown;
      try {
        message = JSON.parse(text);
      } catch (error) {
        return errorText(undefined, -32700, "Parse error", { problem: thrownMessage(error) });
      }
      return receive(key, message);
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

function announcementOf(connections: ReadonlyMap<string, ServerConnection>): UnknownRecord {
  const settings = [...connections].flatMap(([key, { server }]) => {
    const own = toSdkSettings(server);
    return own === undefined ? [] : [[key, own] as const];
  });
  return {
    sdkMcpServers: [...connections.keys()],
    ...(settings.length > 0 && { sdkMcpServerConfigs: Object.fromEntries(settings) }),
  };
}

function invalidField(field: string, expected: string, received: unknown): ControlAnswer {
  return { ok: false, error: `mcp_message needs ${expected} in "${field}", but it is ${typeName(received)}` };
}

/** One in-process server with its end of the control channel. */
interface ServerConnection {
  readonly server: InProcessServerConfig;
  readonly transport: ControlTransport;
  /** Aborts running calls and waits for their tools. An instance stays usable; what a factory made is closed. */
  readonly close: () => Promise<void>;
}

async function connectServer(
  key: string,
  server: InProcessServerConfig,
  send: (request: UnknownRecord) => Promise<void>,
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
    const watchedFactory: McpServerFactory = async (context) => {
      const made = await factory(context);
      watch(made);
      return made;
    };
    // The SDK picks the revision by the first message.
    const handle = serveStdio(watchedFactory, {
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
    // The SDK also refuses a second connection, but only after it has changed the first.
    if (instance.isConnected()) throw new Error("the server is connected");
    await instance.connect(transport);
  } catch (error) {
    throw new AgentError(
      "instance_in_use",
      `server "${key}": its instance is in use by another agent or transport; use a factory, which makes a server for each agent`,
      { details: { key }, cause: error },
    );
  }
}
