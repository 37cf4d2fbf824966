// Starts a mock of PingAuthorize and the gateway of headgate.yaml, and fails where a policy does not do what it says.
import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import { once } from "node:events";
import { join, resolve } from "node:path";
import { createInterface } from "node:readline";

import { Client, StreamableHTTPClientTransport } from "@modelcontextprotocol/client";

import { startMockPingAuthorize } from "../../src/policy/sideband/mock.ts";
import { aboutRequests, aboutResponses } from "./policies.ts";

const folder = import.meta.dirname;
const bin = resolve(folder, "../../bin/headgate.mjs");
const secret = { header: "CLIENT-TOKEN", value: "example-secret" };

const mock = await startMockPingAuthorize({ secret, onRequest: aboutRequests, onResponse: aboutResponses });
const gateway = spawn(
  process.execPath,
  [bin, "run", "--config", join(folder, "headgate.yaml"), "--port", "0"],
  {
    env: { ...process.env, NODE: process.execPath, PAZ_URL: mock.url, PAZ_SECRET: secret.value },
    stdio: ["ignore", "ignore", "pipe"],
  },
);
try {
  await tryOut(await listening());
  console.log("every policy did what it says");
} finally {
  gateway.kill();
  await once(gateway, "exit");
  await mock.close();
}

async function listening(): Promise<string> {
  for await (const line of createInterface({ input: gateway.stderr })) {
    const origin = /listening on (?<origin>http:\/\/[^\s/"]+)/u.exec(line)?.groups?.["origin"];
    if (origin !== undefined) {
      // What comes later is not needed, but must be taken or the gateway would wait.
      gateway.stderr.resume();
      return `${origin}/mcp`;
    }
  }
  throw new Error("the gateway did not start");
}

async function tryOut(url: string): Promise<void> {
  const client = new Client({ name: "example", version: "1.0.0" });
  await client.connect(new StreamableHTTPClientTransport(new URL(url)));
  const names = (await client.listTools()).tools.map(({ name }) => name);
  assert.deepEqual(names, ["read_account", "transfer"]);
  assert.equal(await textOf(client, "transfer", { to: "Eve", amount: 10 }), "moved 10 to Eve");
  assert.equal(await textOf(client, "transfer", { to: "Eve", amount: 5000 }), "moved 100 to Eve");
  assert.equal(await textOf(client, "read_account", { owner: "Eve" }), "Eve has 1200 and the PIN (hidden)");
  await assert.rejects(textOf(client, "close_account", { owner: "Eve" }), /closed at the counter/u);

  // Without PingAuthorize nothing goes on: the gate is shut unless the configuration says otherwise.
  await mock.close();
  await assert.rejects(textOf(client, "read_account", { owner: "Eve" }), /unavailable/u);
  await client.close();
}

async function textOf(client: Client, name: string, args: Record<string, unknown>): Promise<string> {
  const { content } = await client.callTool({ name, arguments: args });
  return content.flatMap((block) => (block.type === "text" ? [block.text] : [])).join("\n");
}
