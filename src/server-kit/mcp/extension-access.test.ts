import { ResourceTemplate } from "@modelcontextprotocol/server";
import { describe, expect, it } from "vitest";
import { z } from "zod";

import { principalNamed } from "../../../test/support/principals.ts";
import { connectInMemory, createTestKit, type TestKit } from "../../../test/support/server-kit.ts";
import { anonymous } from "../../core/exchange.ts";
import { defineEntity } from "../entity/entity.ts";
import type { ServerKitOptions } from "../create-server-kit.ts";

// The one entity that lets anonymous callers in.
const News = defineEntity("News", z.object({ id: z.string() }), {
  operations: ["List"],
  requireAuthentication: false,
});

const extend: NonNullable<ServerKitOptions["extend"]> = (server, { allowAnonymous, principalOf }) => {
  for (const name of ["admin_reset", "hello"]) {
    server.registerTool(name, { description: name }, (context) => ({
      content: [{ type: "text", text: `${name} by ${principalOf(context).id}` }],
    }));
    server.registerPrompt(name, {}, () => ({ messages: [] }));
  }
  for (const uri of ["mem://salaries", "mem://public/a"]) {
    server.registerResource(uri, uri, {}, () => ({ contents: [{ uri, text: "kept" }] }));
  }
  server.registerResource("file", new ResourceTemplate("mem://{name}", { list: undefined }), {}, ({ href }) => ({
    contents: [{ uri: href, text: "kept" }],
  }));
  server.server.setRequestHandler(
    "acme/dump",
    { params: z.object({}), result: z.object({ all: z.boolean() }) },
    () => ({ all: true }),
  );
  allowAnonymous({ tools: ["hello"], prompts: ["hello"], resources: ["mem://public/*"] });
};

async function createExtendedKit(requireAuthentication: boolean): Promise<TestKit> {
  return createTestKit({
    entities: [News],
    settings: { requireAuthentication },
    auth: { identify: (request) => (request.headers.has("x-user") ? principalNamed("ann") : undefined) },
    extend,
  });
}

const requests = [
  ["tools/call", { name: "admin_reset", arguments: {} }],
  ["prompts/get", { name: "admin_reset" }],
  ["resources/read", { uri: "mem://salaries" }],
  ["resources/read", { uri: "mem://anything" }],
  ["resources/subscribe", { uri: "mem://salaries" }],
  ["completion/complete", { ref: { type: "ref/prompt", name: "admin_reset" }, argument: { name: "a", value: "" } }],
  [
    "completion/complete",
    { ref: { type: "ref/resource", uri: "mem://{name}" }, argument: { name: "name", value: "" } },
  ],
  ["acme/dump", {}],
] as const;

async function post(kit: TestKit, method: string, params: object, headers: Record<string, string> = {}) {
  const body = { jsonrpc: "2.0", id: 1, method, params };
  const initialize = {
    ...body,
    method: "initialize",
    params: { protocolVersion: "2025-11-25", capabilities: {}, clientInfo: { name: "t", version: "1" } },
  };
  const send = async (message: object, more: Record<string, string>): Promise<Response> =>
    kit.fetch(
      new Request("http://localhost/mcp", {
        method: "POST",
        headers: {
          "content-type": "application/json",
          accept: "application/json, text/event-stream",
          ...headers,
          ...more,
        },
        body: JSON.stringify(message),
      }),
    );
  const session = (await send(initialize, {})).headers.get("mcp-session-id") ?? "";
  return send(body, { "mcp-session-id": session });
}

describe("what the extend hook registers, where the server requires authentication", () => {
  it.each(requests)("refuses %s %j to an anonymous caller with 401 and a challenge", async (method, params) => {
    await using kit = await createExtendedKit(true);
    const response = await post(kit, method, params);
    expect(response.status).toBe(401);
    expect(response.headers.get("www-authenticate")).toContain("Bearer");
    const served = await post(kit, method, params, { "x-user": "ann" });
    expect(served.status).toBe(200);
  });

  it.each(requests)("refuses %s %j on every other transport too", async (method, params) => {
    await using kit = await createExtendedKit(true);
    const client = await connectInMemory(kit, anonymous, "http-sse");
    const failed = await client.request({ method, params }, z.looseObject({})).catch((error: unknown) => error);
    // The SDK's server has no handler for some of them.
    expect([4010, -32_601]).toContain((failed as { readonly code?: number }).code);
  });

  it("serves what the hook opened, and lists nothing else", async () => {
    await using kit = await createExtendedKit(true);
    const client = await connectInMemory(kit, anonymous, "http-sse");
    expect((await client.listTools()).tools.map(({ name }) => name)).toEqual(["News_List", "hello"]);
    expect((await client.listPrompts()).prompts.map(({ name }) => name)).toEqual(["hello"]);
    expect((await client.listResources()).resources.map(({ uri }) => uri)).toEqual(["mem://public/a"]);
    expect((await client.listResourceTemplates()).resourceTemplates).toEqual([]);
    expect(await client.callTool({ name: "hello", arguments: {} })).toMatchObject({
      content: [{ text: "hello by anonymous" }],
    });
    await expect(client.readResource({ uri: "mem://public/a" })).resolves.toMatchObject({ contents: [{}] });
  });

  it("tells handlers who calls", async () => {
    await using kit = await createExtendedKit(true);
    const ann = await connectInMemory(kit, principalNamed("ann"), "http-sse");
    expect(await ann.callTool({ name: "admin_reset", arguments: {} })).toMatchObject({
      content: [{ text: "admin_reset by ann" }],
    });
    const local = await connectInMemory(kit, undefined, "stdio");
    expect(await local.callTool({ name: "admin_reset", arguments: {} })).toMatchObject({
      content: [{ text: "admin_reset by local" }],
    });
  });

  it.each([true, false])(
    "[KO-117] the capability document lists what tools/list lists (authentication required: %s)",
    async (requireAuthentication) => {
      await using kit = await createExtendedKit(requireAuthentication);
      for (const principal of [anonymous, principalNamed("ann")]) {
        const client = await connectInMemory(kit, principal, "http-sse");
        const listed = (await client.listTools()).tools.map(({ name }) => name);
        expect(kit.core.capabilityTools(principal).map(({ name }) => name)).toEqual(listed);
      }
      for (const { name, enabledTransports } of kit.core.capabilityTools(principalNamed("ann")))
        expect([name, enabledTransports]).toEqual([name, ["stdio", "http-sse", "streamable-http"]]);
    },
  );
});
