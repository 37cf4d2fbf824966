import { Client, InMemoryTransport } from "@modelcontextprotocol/client";
import { describe, expect, expectTypeOf, it } from "vitest";
import { z } from "zod";

import { principalNamed } from "../../../test/support/principals.ts";
import { connectInMemory, createTestKit, quietLog } from "../../../test/support/server-kit.ts";
import { defineTool } from "./define-tool.ts";
import { defineEntity } from "../entity/entity.ts";
import { kitFailure } from "../entity/failure.ts";

const Sum = defineTool({
  name: "sum",
  description: "Adds.",
  input: z.object({ numbers: z.array(z.number()) }),
  output: z.object({ sum: z.number() }),
  requiredScopes: ["maths"],
  run: ({ numbers }) => {
    expectTypeOf(numbers).toEqualTypeOf<number[]>();
    return { sum: numbers.reduce((sum, number) => sum + number, 0) };
  },
});

const mathematician = principalNamed("m", { scopes: new Set(["maths"]) });

describe("custom tools", () => {
  it("[KO-023] stand beside entities under the same rules", async () => {
    const Note = defineEntity("Note", z.object({ id: z.string() }), { operations: ["Get"] });
    await using kit = await createTestKit({
      entities: [Note],
      tools: [Sum],
      settings: { requireAuthentication: true },
      auth: { identify: () => undefined },
    });
    const listed = async (principal = mathematician) =>
      (await (await connectInMemory(kit, principal)).listTools()).tools.map(({ name }) => name);
    expect(await listed()).toEqual(["Note_Get", "sum"]);
    expect(await listed(principalNamed("n"))).toEqual(["Note_Get"]);
    const client = await connectInMemory(kit, mathematician);
    const result = await client.callTool({ name: "sum", arguments: { numbers: [1, 2] } });
    expect(result).toMatchObject({ structuredContent: { sum: 3 }, content: [{ text: '{"sum":3}' }] });
  });

  it("[KO-022] check their arguments in the words of entities", async () => {
    await using kit = await createTestKit({ tools: [Sum] });
    const client = await connectInMemory(kit, mathematician);
    const result = await client.callTool({ name: "sum", arguments: { numbers: ["x"], more: 1 } });
    expect(result).toMatchObject({ isError: true });
    expect(JSON.stringify(result.content)).toContain("invalid arguments: numbers.0: Invalid input: expected number");
  });

  it("[KO-097] [KO-098] are refused with a code of ours, the reason and the scopes, before they run", async () => {
    let ran = 0;
    const Guarded = defineTool({
      name: "guarded",
      description: "",
      input: z.object({}),
      requiredScopes: ["a", "b"],
      requireAuthentication: true,
      run: () => {
        ran++;
        return "ran";
      },
    });
    await using kit = await createTestKit({ tools: [Guarded] });
    const call = async (principal?: Parameters<typeof connectInMemory>[1]) =>
      (await connectInMemory(kit, principal, "http-sse")).callTool({ name: "guarded", arguments: {} });
    await expect(call(principalNamed("x", { scopes: new Set(["a"]) }))).rejects.toMatchObject({
      code: 4031,
      data: { reason: "insufficient_scope", requiredScopes: ["a", "b"] },
    });
    await expect(call()).rejects.toMatchObject({
      code: 4010,
      data: { reason: "unauthorized", requiredScopes: ["a", "b"] },
    });
    expect(ran).toBe(0);
    expect(await call(principalNamed("y", { scopes: new Set(["a", "b"]) }))).toMatchObject({
      content: [{ text: "ran" }],
    });
  });

  it("[KO-090] answer faults without internals, and their own failures in their words", async () => {
    const Bad = defineTool({
      name: "bad",
      description: "",
      input: z.object({ how: z.enum(["fault", "failure", "result"]) }),
      run: ({ how }) => {
        if (how === "failure") throw kitFailure("tool_failed", "the moon is in the way");
        if (how === "fault") throw new Error("secret detail");
        return { content: [{ type: "text", text: "said no" }], isError: true };
      },
    });
    await using kit = await createTestKit({ tools: [Bad] });
    const outcomes: unknown[] = [];
    kit.core.onCall(({ outcome }) => outcomes.push(outcome));
    const client = await connectInMemory(kit);
    const call = async (how: string) => client.callTool({ name: "bad", arguments: { how } });
    expect(await call("failure")).toMatchObject({
      isError: true,
      content: [{ text: "the moon is in the way" }],
    });
    expect(await call("result")).toMatchObject({ isError: true, content: [{ text: "said no" }] });
    const fault = await call("fault").catch((error: unknown) => error);
    expect(fault).toMatchObject({ code: -32_603 });
    expect(JSON.stringify(fault) + String(fault)).not.toContain("secret detail");
    expect(outcomes).toEqual(["tool_failed", "tool_failed", "fault"]);
    await expect(client.callTool({ name: "none", arguments: {} })).rejects.toMatchObject({ code: -32_602 });
  });

  it("[KO-023] the hook adds prompts, resources and tools of its own to each fresh server", async () => {
    await using kit = await createTestKit({
      tools: [Sum],
      extend: (server, { via }) => {
        server.registerTool("raw", { description: via }, () => ({
          content: [{ type: "text", text: "raw" }],
        }));
        server.registerPrompt("greet", {}, () => ({
          messages: [{ role: "user", content: { type: "text", text: "hi" } }],
        }));
      },
    });
    const client = await connectInMemory(kit, mathematician, "http-sse");
    expect((await client.listTools()).tools.map(({ name }) => name)).toEqual(["sum", "raw"]);
    expect(await client.callTool({ name: "raw", arguments: {} })).toMatchObject({
      content: [{ text: "raw" }],
    });
    expect((await client.listPrompts()).prompts).toHaveLength(1);
  });

  it("[KO-008] the hook fails at start-up where it registers what the catalogue has", async () => {
    const extend: NonNullable<Parameters<typeof createTestKit>[0]>["extend"] = (server) => {
      server.registerTool("sum", {}, () => ({ content: [] }));
    };
    await expect(createTestKit({ tools: [Sum], extend })).rejects.toThrow(
      "the extend hook of createServerKit failed: Tool sum is already registered",
    );
  });

  it("an empty kit lists no tools instead of not knowing the method", async () => {
    await using kit = await createTestKit();
    expect((await (await connectInMemory(kit)).listTools()).tools).toEqual([]);
  });

  it("[KO-138] the stdio caller has all declared scopes, or those of the setting", async () => {
    await using all = await createTestKit({
      tools: [Sum],
      settings: { requireAuthentication: true },
      auth: { identify: () => undefined },
    });
    const call = { name: "sum", arguments: { numbers: [] } };
    const local = await connectInMemory(all, undefined, "stdio");
    expect(await local.callTool(call)).toMatchObject({ structuredContent: { sum: 0 } });
    await using some = await createTestKit({ tools: [Sum], settings: { stdioScopes: ["other"] } });
    await expect((await connectInMemory(some, undefined, "stdio")).callTool(call)).rejects.toMatchObject({
      code: 4031,
    });
  });
});

describe("a connection whose messages name no caller", () => {
  it("[KO-138] is the local user on stdio only, and nobody over a network", async () => {
    const Guarded = defineTool({
      name: "guarded",
      description: "",
      input: z.object({}),
      requireAuthentication: true,
      run: (_, { principal }) => principal.id,
    });
    await using kit = await createTestKit({ tools: [Guarded] });
    const call = async (via: "stdio" | "http-sse"): Promise<unknown> => {
      const server = kit.core.createServer({ via, sessionId: undefined, log: quietLog(), era: "legacy" });
      const [clientSide, serverSide] = InMemoryTransport.createLinkedPair();
      await server.connect(serverSide);
      const client = new Client({ name: "test", version: "1.0.0" });
      await client.connect(clientSide);
      return client.callTool({ name: "guarded", arguments: {} });
    };
    expect(await call("stdio")).toMatchObject({ content: [{ text: "local" }] });
    await expect(call("http-sse")).rejects.toMatchObject({ code: 4010 });
  });
});

describe("generic tools", () => {
  const Site = defineEntity("Site", z.object({ id: z.string(), name: z.string(), hush: z.string().default("") }), {
    hidden: ["hush"],
  });
  const Secret = defineEntity("Secret", z.object({ id: z.string() }), {
    requiredScopes: ["secret"],
    allowMutations: false,
  });
  const agent = principalNamed("agent");
  const settings = { toolShape: "generic" as const };

  it("are six for however many entities, and name only those the caller may use", async () => {
    await using kit = await createTestKit({
      entities: [Site, Secret],
      settings: { ...settings, requireAuthentication: true },
      auth: { identify: () => undefined },
    });
    const client = await connectInMemory(kit, agent);
    const { tools } = await client.listTools();
    expect(tools.map(({ name }) => name)).toEqual([
      "describe_entities",
      "list_records",
      "get_record",
      "create_record",
      "update_record",
      "delete_record",
    ]);
    expect(tools[1]?.inputSchema).toMatchObject({ properties: { entity: { enum: ["Site"] } } });
    const keeper = await connectInMemory(kit, principalNamed("k", { scopes: new Set(["secret"]) }));
    const seen = (await keeper.listTools()).tools;
    expect(seen[1]?.inputSchema).toMatchObject({ properties: { entity: { enum: ["Site", "Secret"] } } });
    expect(seen[3]?.inputSchema).toMatchObject({ properties: { entity: { enum: ["Site"] } } });
  });

  it("do what the tools of the entity would do", async () => {
    await using kit = await createTestKit({ entities: [Site, Secret], settings });
    const client = await connectInMemory(kit, agent);
    const call = async (name: string, given: Record<string, unknown>) =>
      client.callTool({ name, arguments: { entity: "Site", ...given } });
    expect(await call("create_record", { fields: { id: "a", name: "Oslo" } })).toMatchObject({
      structuredContent: { id: "a", name: "Oslo" },
    });
    expect(await call("update_record", { id: "a", fields: { name: "Moss" } })).toMatchObject({
      structuredContent: { id: "a", name: "Moss" },
    });
    expect(await call("list_records", { filter: { name: "Moss" } })).toMatchObject({
      structuredContent: { items: [{ id: "a", name: "Moss" }] },
    });
    expect(await call("get_record", { id: "none" })).toMatchObject({
      isError: true,
      content: [{ text: "Site not found" }],
    });
    expect(await call("create_record", { fields: "x" })).toMatchObject({
      content: [{ text: "invalid arguments: fields: expected an object" }],
    });
    expect(await call("delete_record", { id: "a" })).toMatchObject({
      structuredContent: { id: "a", deleted: true },
    });
    const hidden = await client.callTool({ name: "list_records", arguments: { entity: "Secret" } });
    expect(hidden).toMatchObject({
      isError: true,
      content: [{ text: "invalid arguments: entity: expected one of Site" }],
    });
  });

  it("describe the fields that can be seen and sent", async () => {
    await using kit = await createTestKit({ entities: [Site, Secret], settings });
    const client = await connectInMemory(kit, agent);
    const { structuredContent } = await client.callTool({ name: "describe_entities", arguments: {} });
    expect(structuredContent).toMatchObject({
      entities: [{ name: "Site", key: "id", createFields: ["id", "name"] }],
    });
    expect(JSON.stringify(structuredContent)).not.toContain("hush");
  });

  it("are suggested when the list of tools gets long", async () => {
    const entities = Array.from({ length: 9 }, (_, index) => defineEntity(`E${index}`, z.object({ id: z.string() })));
    await using kit = await createTestKit({ entities });
    expect(kit.warnings().join()).toContain('9 entities make 45 tools; toolShape "generic"');
  });
});
