// Starts the gateway of headgate.yaml, calls it as two people, and fails where a rule does not do what it says.
import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import { once } from "node:events";
import { join } from "node:path";
import type { Client } from "@modelcontextprotocol/client";

import { bin, connect, startGateway } from "../running-gateway.ts";

const folder = import.meta.dirname;

await tryOut();
await using gateway = await startGateway(folder);
await asAnn(await connect(gateway.url, "hgk_example_ann_0123456789abcdefghij"));
await asBob(await connect(gateway.url, "hgk_example_bob_0123456789abcdefghij"));
console.log("every rule did what it says");

/** The rules alone, without a gateway. */
async function tryOut(): Promise<void> {
  const test = spawn(process.execPath, [bin, "policy", "test", join(folder, "policy.test.yaml")], {
    env: { ...process.env, NODE: process.execPath },
    stdio: "inherit",
  });
  const [code] = (await once(test, "exit")) as [number];
  assert.equal(code, 0);
}

async function asAnn(client: Client): Promise<void> {
  const names = (await client.listTools()).tools.map(({ name }) => name);
  assert.deepEqual(names, ["find_person", "list_people", "pay", "read_log"]);
  assert.equal(await textOf(client, "list_people", { limit: 500 }), "the first 20 people");
  assert.match(await textOf(client, "find_person", { name: "Eve" }), /64000/u);
  assert.equal(await textOf(client, "pay", { to: "Eve", amount: 10 }), "paid 10 to Eve");
  await assert.rejects(textOf(client, "pay", { to: "Eve", amount: 1000 }), /No rule/u);
  assert.equal(await textOf(client, "pay", { to: "Eve", amount: 10 }), "paid 10 to Eve");
  await assert.rejects(textOf(client, "pay", { to: "Eve", amount: 10 }), /try again in/u);
  await assert.rejects(textOf(client, "delete_person", { name: "Eve" }), /registry office/u);
  assert.equal(await textOf(client, "read_log", {}), "12:00 started with key [redacted: aws-access-key]");
  await client.close();
}

async function asBob(client: Client): Promise<void> {
  const names = (await client.listTools()).tools.map(({ name }) => name);
  assert.deepEqual(names, ["find_person", "list_people", "read_log"]);
  const found = await client.callTool({ name: "find_person", arguments: { name: "Eve" } });
  assert.equal(JSON.stringify(found).includes("64000"), false);
  await assert.rejects(textOf(client, "pay", { to: "Eve", amount: 10 }));
  await assert.rejects(textOf(client, "debug_dump", {}));
  await client.close();
}

async function textOf(client: Client, name: string, args: Record<string, unknown>): Promise<string> {
  const { content } = await client.callTool({ name, arguments: args });
  return content.flatMap((block) => (block.type === "text" ? [block.text] : [])).join("\n");
}
