import { systemTimer, type SetTimer } from "../exchange.ts";
import { connectServer, type ServerConnection } from "./connection.ts";
import { endsWithin } from "./deadline.ts";
import { AgentError, thrownMessage, type OnWarning } from "./errors.ts";
import { isJsonObject, typeName, type JsonObject } from "./json-object.ts";
import { ack, errorText, idOf, classifyMessage } from "./json-rpc.ts";
import {
  checkServers,
  toSdkSettings,
  type InProcessServerConfig,
  type ServerConfigs,
} from "./server-config.ts";

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
