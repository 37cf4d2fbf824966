import { Client, InMemoryTransport, type JSONRPCMessage } from "@modelcontextprotocol/client";

import { anonymous, type Principal } from "../../src/core/exchange.ts";
import type { KitCaller } from "../../src/server-kit/tools/tool-entry.ts";
import type { TransportName } from "../../src/server-kit/entity/entity.ts";
import {
  assembleKit,
  type KitDeps,
  type ServerKit,
  type ServerKitOptions,
} from "../../src/server-kit/create-server-kit.ts";
import type { KitCore } from "../../src/server-kit/http/contract.ts";
import { createLogger, type Logger } from "../../src/telemetry/log.ts";

/** A log that nobody reads. */
export function quietLog(): Logger {
  return createLogger({ level: "silent", pretty: false, destination: { write: () => {} } });
}

/** A kit whose core tests can reach. */
export type TestKit = ServerKit & { readonly core: KitCore };

/** A kit in development with HTTP enabled, independent of the environment. */
export async function createTestKit(options: Partial<ServerKitOptions & KitDeps> = {}): Promise<TestKit> {
  const { kit, core } = await assembleKit(
    {
      name: "test",
      env: {},
      environment: { deployed: false, name: "test" },
      log: quietLog(),
      ...options,
      settings: { enableHttpSseTransport: true, ...options.settings },
    },
    options,
  );
  return { ...kit, core };
}

/** A caller as the edge would make it. */
export function callerFor(principal: Principal = anonymous, via: KitCaller["via"] = "streamable-http"): KitCaller {
  return {
    principal,
    via,
    signal: new AbortController().signal,
    sessionId: undefined,
    requestId: "test",
    log: quietLog(),
  };
}

/** An official client on a server of the kit, over memory; every message comes from the given principal. */
export async function connectInMemory(
  kit: TestKit,
  principal: Principal = anonymous,
  via: TransportName = "streamable-http",
): Promise<Client> {
  const server = kit.core.createServer({ via, sessionId: undefined, log: quietLog(), era: "legacy" });
  const [clientSide, serverSide] = InMemoryTransport.createLinkedPair();
  await server.connect(serverSide);
  if (via !== "stdio") {
    const deliver = serverSide.onmessage;
    serverSide.onmessage = (message: JSONRPCMessage) =>
      deliver?.(message, { authInfo: kit.core.toAuthInfo(callerFor(principal, via)) });
  }
  const client = new Client({ name: "test", version: "1.0.0" });
  await client.connect(clientSide);
  return client;
}

/** A REST request to a kit with a JSON body. */
export async function requestRest(
  kit: ServerKit,
  path: string,
  init: { readonly method?: string; readonly body?: unknown; readonly headers?: Record<string, string> } = {},
): Promise<{ readonly status: number; readonly body: unknown; readonly headers: Headers }> {
  const { method = "GET", body, headers } = init;
  const response = await kit.fetch(
    new Request(`http://localhost${path}`, {
      method,
      headers: { ...(body === undefined ? {} : { "content-type": "application/json" }), ...headers },
      ...(body === undefined ? {} : { body: JSON.stringify(body) }),
    }),
  );
  const text = await response.text();
  return {
    status: response.status,
    body: text === "" ? undefined : JSON.parse(text),
    headers: response.headers,
  };
}
