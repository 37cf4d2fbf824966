// What the examples with a policy have in common: a gateway of theirs in a process, and clients of it.
import { spawn } from "node:child_process";
import { once } from "node:events";
import { join, resolve } from "node:path";
import { createInterface } from "node:readline";

import { Client, StreamableHTTPClientTransport } from "@modelcontextprotocol/client";

/** The command, as a package has it. */
export const bin = resolve(import.meta.dirname, "../bin/headgate.mjs");

/** A gateway that listens; disposing of it ends its process. */
export interface RunningGateway extends AsyncDisposable {
  readonly url: string;
}

/** Starts the gateway of a folder's headgate.yaml on a free port, with more variables in its environment. */
export async function startGateway(
  folder: string,
  variables: Readonly<Record<string, string>> = {},
): Promise<RunningGateway> {
  const gateway = spawn(process.execPath, [bin, "run", "--config", join(folder, "headgate.yaml"), "--port", "0"], {
    env: { ...process.env, NODE: process.execPath, ...variables },
    stdio: ["ignore", "ignore", "pipe"],
  });
  for await (const line of createInterface({ input: gateway.stderr })) {
    const origin = /listening on (?<origin>http:\/\/[^\s/"]+)/u.exec(line)?.groups?.["origin"];
    if (origin === undefined) continue;
    // What comes later is not needed, but must be taken or the gateway would wait.
    gateway.stderr.resume();
    return {
      url: `${origin}/mcp`,
      [Symbol.asyncDispose]: async () => {
        gateway.kill();
        await once(gateway, "exit");
      },
    };
  }
  throw new Error("the gateway did not start");
}

/** Connects a client, with a key where callers must show one. */
export async function connect(url: string, key?: string): Promise<Client> {
  const client = new Client({ name: "example", version: "1.0.0" });
  const requestInit = key === undefined ? {} : { headers: { authorization: `Bearer ${key}` } };
  await client.connect(new StreamableHTTPClientTransport(new URL(url), { requestInit }));
  return client;
}
