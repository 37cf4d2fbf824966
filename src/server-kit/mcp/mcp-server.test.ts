import { PassThrough } from "node:stream";

import { describe, expect, it } from "vitest";
import { z } from "zod";

import { principalNamed } from "../../../test/support/principals.ts";
import { callerFor, connectInMemory, createTestKit, quietLog } from "../../../test/support/server-kit.ts";
import { kitFailure } from "../entity/failure.ts";
import { defineTool } from "../tools/define-tool.ts";
import { openStdio, toAuthInfo } from "./mcp-server.ts";

const empty = z.object({});

function toolNamed(name: string, run: () => string) {
  return defineTool({ name, description: "", input: empty, run });
}

describe("the outcome of a call over MCP", () => {
  it("[KO-013] repeats data as a text block", async () => {
    const Look = defineTool({
      name: "look",
      description: "",
      input: empty,
      output: z.object({ seen: z.number() }),
      run: () => ({ seen: 1 }),
    });
    await using kit = await createTestKit({ tools: [Look] });
    const result = await (await connectInMemory(kit)).callTool({ name: "look", arguments: {} });
    expect(result).toMatchObject({
      structuredContent: { seen: 1 },
      content: [{ type: "text", text: '{"seen":1}' }],
    });
  });

  it("says what failed in a result, with the code for programs", async () => {
    const Find = toolNamed("find", () => {
      throw kitFailure("not_found", "no such note");
    });
    await using kit = await createTestKit({ tools: [Find] });
    const result = await (await connectInMemory(kit)).callTool({ name: "find", arguments: {} });
    expect(result).toMatchObject({
      isError: true,
      content: [{ text: "no such note" }],
      _meta: { "headgate/error": { code: "not_found" } },
    });
  });

  it("[KO-090, KO-141] is a protocol error without the reason for a bug, and for an unknown tool", async () => {
    const Broken = toolNamed("broken", () => {
      throw new TypeError("the password is hunter2");
    });
    await using kit = await createTestKit({ tools: [Broken] });
    const client = await connectInMemory(kit);
    const fault = await client.callTool({ name: "broken", arguments: {} }).catch((error: unknown) => error);
    expect(fault).toMatchObject({ code: -32603, message: expect.stringContaining("internal error ") });
    expect(String(fault)).not.toContain("hunter2");
    await expect(client.callTool({ name: "none", arguments: {} })).rejects.toMatchObject({ code: -32602 });
  });
});

describe("what the extend hook registers", () => {
  it("[KO-023] stands beside the tools of the catalog", async () => {
    await using kit = await createTestKit({
      tools: [toolNamed("mine", () => "done")],
      extend: (server) => void server.registerTool("theirs", {}, () => ({ content: [] })),
    });
    const { tools } = await (await connectInMemory(kit)).listTools();
    expect(tools.map(({ name }) => name)).toEqual(["mine", "theirs"]);
  });

  it("[KO-008] must not have the name of a tool of the catalog", async () => {
    const made = createTestKit({
      tools: [toolNamed("mine", () => "done")],
      extend: (server) => void server.registerTool("mine", {}, () => ({ content: [] })),
    });
    await expect(made.then(async (kit) => connectInMemory(kit))).rejects.toThrow("mine");
  });
});

describe("the caller of a request", () => {
  it("reaches the handlers as the edge identified it, without a token", async () => {
    const ann = principalNamed("ann", { scopes: new Set(["read"]), expiresAt: 5000 });
    const authInfo = toAuthInfo({ ...callerFor(ann), resourceMetadataUrl: "https://localhost/metadata" });
    expect(authInfo).toMatchObject({ token: "", clientId: "ann", scopes: ["read"], expiresAt: 5 });
    const seen: string[] = [];
    await using kit = await createTestKit({
      extend: (server, { principalOf }) => {
        server.registerTool("who", {}, (context) => {
          seen.push(principalOf(context).id);
          return { content: [] };
        });
      },
    });
    await (await connectInMemory(kit, ann)).callTool({ name: "who", arguments: {} });
    await (await connectInMemory(kit, ann, "stdio")).callTool({ name: "who", arguments: {} });
    expect(seen).toEqual(["ann", "local"]);
  });
});

describe("stdio", () => {
  it("[KO-137] ends when its input ends", async () => {
    await using kit = await createTestKit();
    const input = new PassThrough();
    const session = openStdio(kit.core, quietLog(), { input, output: new PassThrough() });
    input.end();
    await expect(session.ended).resolves.toBeUndefined();
    await session.close();
  });

  it("writes nothing but messages", async () => {
    await using kit = await createTestKit();
    const [input, output] = [new PassThrough(), new PassThrough()];
    const session = openStdio(kit.core, quietLog(), { input, output });
    const written: Promise<unknown> = new Promise((resolve) => output.once("data", resolve));
    input.write('{"jsonrpc":"2.0","id":1,"method":"ping"}\n');
    const lines = String(await written)
      .trimEnd()
      .split("\n");
    expect(lines.map((line) => JSON.parse(line) as unknown)).toMatchObject([{ jsonrpc: "2.0", id: 1 }]);
    await session.close();
  });
});
