import type { JSONRPCMessage, McpServer, McpServerFactory } from "@modelcontextprotocol/server";
import { serveStdio } from "@modelcontextprotocol/server/stdio";

import { ControlTransport } from "./control-transport.ts";
import { AgentError, type OnWarning } from "./errors.ts";
import type { JsonObject } from "./json-object.ts";
import { nameWarning } from "./names.ts";
import type { InProcessServerConfig } from "./server-config.ts";
import { onToolAdded, whenIdle } from "./server.ts";

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
export async function connectServer(
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
