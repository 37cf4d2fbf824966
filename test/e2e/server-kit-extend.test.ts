// What a host adds with the official SDK, over a real socket.
import { Client } from "@modelcontextprotocol/sdk/client/index.js";
import { StreamableHTTPClientTransport } from "@modelcontextprotocol/sdk/client/streamableHttp.js";
import { expect, it } from "vitest";
import { z } from "zod";

import { apiKeyVerifier, defineEntity, listen } from "../../src/server-kit/index.ts";
import { formatApiKey, hashApiKey } from "../../src/auth/api-key.ts";
import { createTestKit } from "../support/server-kit.ts";

const News = defineEntity("News", z.object({ id: z.string() }), { operations: ["List"], requireAuthentication: false });
const key = formatApiKey(new Uint8Array(32).fill(9));

it("[KO-117] keeps what extend adds behind the login, in lists, calls and the capability document", async () => {
  await using kit = await createTestKit({
    entities: [News],
    settings: { requireAuthentication: true },
    auth: { authenticator: apiKeyVerifier({ keys: { ann: { hash: hashApiKey(key) } } }) },
    extend: (server, { allowAnonymous, principalOf }) => {
      for (const name of ["admin_reset", "hello"]) {
        server.registerTool(name, { description: name }, (context) => ({
          content: [{ type: "text", text: `${name} by ${principalOf(context).id}` }],
        }));
      }
      server.registerResource("salaries", "mem://salaries", {}, () => ({
        contents: [{ uri: "mem://salaries", text: "all salaries" }],
      }));
      allowAnonymous({ tools: ["hello"] });
    },
  });
  await using server = await listen(kit, { port: 0 });
  const connect = async (headers: Record<string, string>) => {
    const client = new Client({ name: "t", version: "1" });
    await client.connect(new StreamableHTTPClientTransport(new URL(`${server.url}/mcp`), { requestInit: { headers } }));
    return client;
  };
  const described = async (headers: Record<string, string>) => {
    const response = await fetch(`${server.url}/mcp/capabilities`, { headers });
    return ((await response.json()) as { tools: { name: string }[] }).tools.map(({ name }) => name);
  };
  const login = { authorization: `Bearer ${key}` };
  const anybody = await connect({});
  const ann = await connect(login);
  expect((await anybody.listTools()).tools.map(({ name }) => name)).toEqual(["News_List", "hello"]);
  expect(await described({})).toEqual(["News_List", "hello"]);
  await expect(anybody.callTool({ name: "admin_reset", arguments: {} })).rejects.toThrow(/401|log in|unauthori/iu);
  await expect(anybody.readResource({ uri: "mem://salaries" })).rejects.toThrow(/401|log in|unauthori/iu);
  expect(await described(login)).toEqual((await ann.listTools()).tools.map(({ name }) => name));
  expect(await ann.callTool({ name: "admin_reset", arguments: {} })).toMatchObject({
    content: [{ text: "admin_reset by key:kit/ann" }],
  });
  await anybody.close();
  await ann.close();
});
