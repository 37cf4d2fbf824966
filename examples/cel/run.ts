// Starts the gateway of headgate.yaml, calls it as two people, and fails where a rule does not do what it says.
import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import { once } from "node:events";
import { join, resolve } from "node:path";
import { createInterface } from "node:readline";
import { Client, StreamableHTTPClientTransport } from "@modelcontextprotocol/client";

const folder = import.meta.dirname;
const bin = resolve(folder, "../../bin/headgate.mjs");
const env = { ...process.env, NODE: process.execPath };

await tryOut();
const gateway = spawn(
  process.execPath,
  [bin, "run", "--config", join(folder, "headgate.yaml"), "--port", "0"],
  {
    env,
    stdio: ["ignore", "ignore", "pipe"],
  },
);
try {
  const url = await listening();
  await asAnn(await connect(url, "hgk_example_ann_0123456789abcdefghij"));
  await asBob(await connect(url, "hgk_example_bob_0123456789abcdefghij"));
  console.log("every rule did what it says");
} finally {
  gateway.kill();
  await once(gateway, "exit");
}

/** The rules alone, without a gateway. */
async function tryOut(): Promise<void> {
  const test = spawn(process.execPath, [bin, "policy", "test", join(folder, "policy.test.yaml")], {
    env,
    stdio: "inherit",
  });
  const [code] = (await once(test, "exit")) as [number];
  assert.equal(code, 0);
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

async function connect(url: string, key: string): Promise<Client> {
  const client = new Client({ name: "example", version: "1.0.0" });
  const headers = { authorization: `Bearer ${key}` };
  await client.connect(new StreamableHTTPClientTransport(new URL(url), { requestInit: { headers } }));
  return client;
}

async function asAnn(client: Client): Promise<void> {
  const names = (await client.listTools()).tools.map(({ name }) => name);
  assert.deepEqual(names, ["find_person", "list_people", "pay", "delete_person", "read_log"]);
  assert.equal(await textOf(client, "list_people", { limit: 500 }), "the first 20 people");
  assert.match(await textOf(client, "find_person", { name: "Eve" }), /64000/u);
  assert.equal(await textOf(client, "pay", { to: "Eve", amount: 10 }), "paid 10 to Eve");
  await assert.rejects(textOf(client, "pay", { to: "Eve", amount: 1000 }), /No rule/u);
  assert.equal(await textOf(client, "pay", { to: "Eve", amount: 10 }), "paid 10 to Eve");
  await assert.rejects(textOf(client, "pay", { to: "Eve", amount: 10 }), /come back in/u);
  await assert.rejects(textOf(client, "delete_person", { name: "Eve" }), /registry office/u);
  assert.equal(await textOf(client, "read_log", {}), "12:00 started with key [redacted: aws-access-key]");
  await client.close();
}

async function asBob(client: Client): Promise<void> {
  const names = (await client.listTools()).tools.map(({ name }) => name);
  assert.deepEqual(names, ["find_person", "list_people", "delete_person", "read_log"]);
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
