import { randomUUID } from "node:crypto";
import { createInterface } from "node:readline";
import { PassThrough } from "node:stream";

import type { Client, JSONRPCMessage, Transport } from "@modelcontextprotocol/client";

import type { Config } from "../../config/config.ts";
import type { Environment } from "../../config/substitute.ts";
import { systemTimer } from "../../core/exchange.ts";
import { createGateway } from "../../gateway/gateway.ts";
import type { Logger } from "../../telemetry/log.ts";
import { serveStdio } from "../../transports/stdio/server.ts";
import { packageVersion } from "../io.ts";

/** A client of one route, inside this process. */
export interface GatewayClient extends AsyncDisposable {
  readonly client: Client;
}

/** Connects to a route as a client would that is let in: through a gateway that neither listens nor records. */
export async function connectThroughGateway(
  config: Config,
  route: string,
  { env, log, timeoutMs }: { readonly env: Environment; readonly log: Logger; readonly timeoutMs: number },
): Promise<GatewayClient> {
  const sdk = await import("@modelcontextprotocol/client");
  const gateway = createGateway(config, {
    log,
    environment: env,
    demo: async () => (await import("../../demo/server.ts")).createDemoServer(),
  });
  const [input, output] = [new PassThrough(), new PassThrough()];
  const channel = serveStdio({ input, output, newId: randomUUID, setTimer: systemTimer }, (opened) =>
    gateway.serve(opened, route, () => {}),
  );
  const transport: Transport = {
    start: async () => {
      createInterface({ input: output }).on("line", (line) => {
        // The gateway writes messages only.
        transport.onmessage?.(JSON.parse(line) as JSONRPCMessage);
      });
      return Promise.resolve();
    },
    send: async (message) => {
      input.write(`${JSON.stringify(message)}\n`);
      return Promise.resolve();
    },
    close: async () => {
      transport.onclose?.();
      return Promise.resolve();
    },
  };
  const close = async (): Promise<void> => {
    await gateway.close();
    await channel.close("the check is over");
  };
  const client = new sdk.Client(
    { name: "headgate-doctor", version: packageVersion() },
    { versionNegotiation: { mode: "auto", probe: { timeoutMs } } },
  );
  try {
    await client.connect(transport, { timeout: timeoutMs });
  } catch (error) {
    await close();
    throw error;
  }
  return {
    client,
    [Symbol.asyncDispose]: async () => {
      await client.close();
      await close();
    },
  };
}
