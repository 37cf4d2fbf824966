import { Client, type JSONRPCMessage, type Transport } from "@modelcontextprotocol/client";

import { bridgeControlChannel, type ControlBridge } from "../../../src/agent-kit/control/control-bridge.ts";
import type { AgentError } from "../../../src/agent-kit/errors.ts";
import type { UnknownRecord } from "../../../src/agent-kit/json-rpc.ts";
import type { ServerConfigs } from "../../../src/agent-kit/tools/server-config.ts";
import { isObject } from "../../../src/lib/is-object.ts";

/** A bridge with a notebook: what it sent on its own and what it warned of. */
export interface WatchedBridge extends AsyncDisposable {
  readonly bridge: ControlBridge;
  /** The control requests that the bridge sent. */
  readonly sent: UnknownRecord[];
  readonly warnings: AgentError[];
  /** Sends one message as the CLI would and returns the `mcp_response`. */
  readonly ask: (key: string, message: unknown) => Promise<UnknownRecord>;
  /** An SDK client on the other side of the control channel, connected to one server. */
  readonly client: (key: string) => Promise<Client>;
}

/** Opens a bridge without a CLI. */
export async function openBridge(servers: ServerConfigs): Promise<WatchedBridge> {
  const sent: UnknownRecord[] = [];
  const warnings: AgentError[] = [];
  const listeners = new Map<string, (message: UnknownRecord) => void>();
  const bridge = await bridgeControlChannel({
    servers,
    onWarning: (warning) => warnings.push(warning),
    send: async (control) => {
      sent.push(control);
      const { server_name: key, message } = control;
      if (isObject(message)) listeners.get(String(key))?.(message);
    },
  });
  async function ask(key: string, message: unknown): Promise<UnknownRecord> {
    const answer = await bridge.answer({ subtype: "mcp_message", server_name: key, message });
    if (!answer.ok) throw new Error(answer.error);
    const body: unknown = JSON.parse(answer.json);
    const response = isObject(body) ? body["mcp_response"] : undefined;
    if (!isObject(response)) throw new Error(`no mcp_response in ${answer.json}`);
    return response;
  }
  async function client(key: string): Promise<Client> {
    const transport: Transport = {
      start: async () => {
        listeners.set(key, (message) => transport.onmessage?.(message as unknown as JSONRPCMessage));
      },
      async send(message) {
        // Not awaited: the CLI too goes on while a call runs.
        void ask(key, message).then((response) => {
          if ("id" in response) transport.onmessage?.(response as unknown as JSONRPCMessage);
        });
      },
      async close() {
        transport.onclose?.();
      },
    };
    const made = new Client({ name: "control-client", version: "1.0.0" });
    await made.connect(transport);
    return made;
  }
  return { bridge, sent, warnings, ask, client, [Symbol.asyncDispose]: bridge.close };
}

/** The JSON-RPC request with these members. */
export function request(id: number | string, method: string, params?: UnknownRecord): UnknownRecord {
  return { jsonrpc: "2.0", id, method, ...(params !== undefined && { params }) };
}

/** The `initialize` request that the CLI opens with. */
export function initialize(id: number | string = 0): UnknownRecord {
  return request(id, "initialize", {
    protocolVersion: "2025-11-25",
    capabilities: {},
    clientInfo: { name: "claude-code", version: "2.1.325" },
  });
}

/** A `tools/call` request as the CLI sends it. */
export function toolCall(id: number | string, name: string, args: UnknownRecord = {}): UnknownRecord {
  return request(id, "tools/call", {
    name,
    arguments: args,
    _meta: { "claudecode/toolUseId": `toolu_${id}`, progressToken: id },
  });
}
