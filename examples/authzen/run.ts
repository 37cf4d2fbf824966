// Starts a mock decision point and the gateway of headgate.yaml, and fails where a policy does not do what it says.
import assert from "node:assert/strict";

import type { Client } from "@modelcontextprotocol/client";

import { startMockAuthZen } from "../../src/policy/testing/mock-authzen.ts";
import { connect, startGateway } from "../running-gateway.ts";
import { policy } from "./policies.ts";

const token = "example-token";

const mock = await startMockAuthZen({ token, policy });
try {
  await using gateway = await startGateway(import.meta.dirname, { PDP_URL: mock.url, PDP_TOKEN: token });
  await tryOut(gateway.url);
  console.log("every policy did what it says");
} finally {
  await mock.close();
}

async function tryOut(url: string): Promise<void> {
  const ann = await connect(url, "ann-example-key-0123456789abcdef");
  const bob = await connect(url, "bob-example-key-0123456789abcdef");

  // Lists hold what may be used, asked for in one batch.
  assert.deepEqual(await namesFor(ann), ["read_account", "transfer", "close_account"]);
  assert.deepEqual(await namesFor(bob), ["read_account", "transfer"]);
  assert.equal(mock.requests.filter(({ endpoint }) => endpoint === "evaluations").length, 2);

  // What the server declares for its tool is what is asked: about the account, not about the tool.
  assert.equal(await textOf(bob, "transfer", { from: "bob", to: "ann", amount: 10 }), "moved 10 from bob to ann");
  assert.deepEqual(mock.requests.at(-1)?.body, {
    subject: { type: "identity", id: "key:people/bob" },
    action: { name: "transfer" },
    resource: { type: "account", id: "bob", properties: { size: "small" } },
    context: {},
  });
  await assert.rejects(textOf(bob, "transfer", { from: "ann", to: "bob", amount: 10 }), denied(/not your account/u));
  await assert.rejects(textOf(bob, "transfer", { from: "bob", to: "ann", amount: 500 }), denied(/at the counter/u));
  await assert.rejects(textOf(bob, "close_account", { owner: "ann" }), denied(/does not allow/u));
  assert.equal(await textOf(ann, "close_account", { owner: "ann" }), "ann is closed");

  // Without a decision point nothing goes on: the gate is shut unless the configuration says otherwise.
  await mock.close();
  await assert.rejects(textOf(bob, "read_account", { owner: "bob" }), { code: -32603 });
  await ann.close();
  await bob.close();
}

function denied(reason: RegExp): { readonly code: number; readonly message: RegExp } {
  return { code: -32001, message: reason };
}

async function namesFor(client: Client): Promise<readonly string[]> {
  return (await client.listTools()).tools.map(({ name }) => name);
}

async function textOf(client: Client, name: string, args: Record<string, unknown>): Promise<string> {
  const { content } = await client.callTool({ name, arguments: args });
  return content.flatMap((block) => (block.type === "text" ? [block.text] : [])).join("\n");
}
