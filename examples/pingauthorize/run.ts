// Starts a mock of PingAuthorize and the gateway of headgate.yaml, and fails where a policy does not do what it says.
import assert from "node:assert/strict";

import type { Client } from "@modelcontextprotocol/client";

import { startMockPingAuthorize } from "../../src/policy/testing/mock-ping-authorize.ts";
import { connect, startGateway } from "../running-gateway.ts";
import { aboutRequests, aboutResponses } from "./policies.ts";

const secret = { header: "CLIENT-TOKEN", value: "example-secret" };

const mock = await startMockPingAuthorize({ secret, onRequest: aboutRequests, onResponse: aboutResponses });
try {
  await using gateway = await startGateway(import.meta.dirname, {
    PAZ_URL: mock.url,
    PAZ_SECRET: secret.value,
  });
  await tryOut(gateway.url);
  console.log("every policy did what it says");
} finally {
  await mock.close();
}

async function tryOut(url: string): Promise<void> {
  const client = await connect(url);
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
