import { describe, expect, it } from "vitest";
import { z } from "zod";

import { principalNamed } from "../../../test/support/principals.ts";
import { connectInMemory, createTestKit } from "../../../test/support/server-kit.ts";
import type { Principal } from "../../core/exchange.ts";
import { createToolCatalog } from "../tools/tool-catalog.ts";
import { createCursors } from "./filter.ts";
import { defineTool } from "../tools/define-tool.ts";
import { defineEntity, modelOf } from "./entity.ts";
import { createTurns } from "./turns.ts";
import { createRecords } from "./records.ts";
import { parseSettings } from "../settings/settings.ts";
import { memoryStore } from "../stores/memory.ts";

const Site = defineEntity("TrialSite", z.object({ id: z.uuid(), name: z.string() }), {
  description: "Clinical trial sites.",
  requiredScopes: ["clinical:operations"],
});
const Visit = defineEntity("Visit", z.object({ id: z.uuid(), siteId: z.string() }));

const operator = principalNamed("operator", { scopes: new Set(["clinical:operations"]) });
const stranger = principalNamed("stranger");

async function namesFor(...given: Parameters<typeof connectInMemory>): Promise<readonly string[]> {
  const client = await connectInMemory(...given);
  return (await client.listTools()).tools.map(({ name }) => name);
}

describe("tools of entities", () => {
  it("[KO-001] [KO-007] [KO-009] are five per entity, on every transport, from one declaration", async () => {
    await using kit = await createTestKit({ entities: [Site] });
    const expected = ["List", "Get", "Create", "Update", "Delete"].map((name) => `TrialSite_${name}`);
    for (const via of ["stdio", "http-sse", "streamable-http"] as const) {
      expect(await namesFor(kit, operator, via)).toEqual(expected);
    }
  });

  it("[KO-002] show the description to clients", async () => {
    await using kit = await createTestKit({ entities: [Site] });
    const { tools } = await (await connectInMemory(kit, operator)).listTools();
    expect(tools[0]?.description).toContain("Clinical trial sites.");
  });

  it("[KO-003] [KO-099] are seen only with all scopes, compared by case", async () => {
    const Strict = defineEntity("Strict", z.object({ id: z.string() }), { requiredScopes: ["a", "b"] });
    await using kit = await createTestKit({
      entities: [Strict],
      settings: { requireAuthentication: true },
      auth: someLogin(),
    });
    const withScopes = (...scopes: string[]) => principalNamed("x", { scopes: new Set(scopes) });
    expect(await namesFor(kit, withScopes("a", "b", "c"))).toHaveLength(5);
    expect(await namesFor(kit, withScopes("a"))).toEqual([]);
    expect(await namesFor(kit, withScopes("A", "b"))).toEqual([]);
  });

  it("[KO-099] are all shown where the setting says so", async () => {
    for (const [showAllTools, shown] of [
      [true, 5],
      [false, 0],
    ] as const) {
      await using kit = await createTestKit({
        entities: [Site],
        settings: { showAllTools, requireAuthentication: true },
        auth: someLogin(),
      });
      expect(await namesFor(kit, stranger)).toHaveLength(shown);
      expect(kit.core.capabilityTools(stranger)).toHaveLength(shown);
    }
  });

  it("[KO-004] inherit whether a login is needed, or say it themselves", async () => {
    const open = defineEntity("Open", z.object({ id: z.string() }), { requireAuthentication: false });
    const closed = defineEntity("Closed", z.object({ id: z.string() }), { requireAuthentication: true });
    const unset = defineEntity("Unset", z.object({ id: z.string() }));
    const entities = [open, closed, unset];
    const lists = { operations: ["List" as const] };
    await using lax = await createTestKit({ entities, settings: lists });
    expect(await namesFor(lax)).toEqual(["Open_List", "Unset_List"]);
    await using strict = await createTestKit({
      entities,
      auth: someLogin(),
      settings: { ...lists, requireAuthentication: true },
    });
    expect(await namesFor(strict)).toEqual(["Open_List"]);
    expect(strict.core.allowsAnonymous()).toBe(true);
  });

  it("[KO-005] [KO-027] are only on the transports they are enabled for, and unknown elsewhere", async () => {
    const local = defineEntity("Local", z.object({ id: z.string() }), { enabledTransports: ["stdio"] });
    const nowhere = defineEntity("Nowhere", z.object({ id: z.string() }), { enabledTransports: [] });
    await using kit = await createTestKit({ entities: [local, nowhere] });
    expect(await namesFor(kit, operator, "stdio")).toHaveLength(5);
    const client = await connectInMemory(kit, operator, "http-sse");
    expect((await client.listTools()).tools).toEqual([]);
    await expect(client.callTool({ name: "Local_List", arguments: {} })).rejects.toMatchObject({
      code: -32_602,
    });
  });

  it("[KO-006] [KO-011] have no mutations where those are off, and answer that they are unknown", async () => {
    const Fixed = defineEntity("Fixed", z.object({ id: z.string() }), {
      allowMutations: false,
      toolPrefix: "x_",
      schemaOverride: { Get: { type: "object", properties: { id: { type: "string", description: "own" } } } },
    });
    await using kit = await createTestKit({ entities: [Fixed] });
    const client = await connectInMemory(kit);
    const { tools } = await client.listTools();
    expect(tools.map(({ name }) => name)).toEqual(["x_Fixed_List", "x_Fixed_Get"]);
    expect(tools[1]?.inputSchema).toMatchObject({ properties: { id: { description: "own" } } });
    await expect(client.callTool({ name: "x_Fixed_Delete", arguments: { id: "1" } })).rejects.toMatchObject({
      code: -32_602,
    });
  });

  it("[KO-009] [KO-010] are those that the entity or the server names", async () => {
    const Counted = defineEntity("Counted", z.object({ id: z.string() }), {
      operations: ["Count", "DeleteWhere"],
    });
    await using kit = await createTestKit({ entities: [Counted, Visit], settings: { operations: ["Get"] } });
    expect(await namesFor(kit)).toEqual(["Counted_Count", "Counted_DeleteWhere", "Visit_Get"]);
  });

  it("[KO-008] of one name fail at start-up with both declarations", async () => {
    const twin = defineTool({ name: "Visit_List", description: "", input: z.object({}), run: () => "" });
    await expect(createTestKit({ entities: [Visit], tools: [twin] })).rejects.toThrow(
      "custom tool Visit_List and operation List of entity Visit are both named Visit_List",
    );
    const namesake = defineEntity("visit", z.object({ id: z.string() }));
    await expect(createTestKit({ entities: [Visit, namesake] })).rejects.toThrow(
      "the entities Visit and visit have the same name",
    );
    const dotted = defineTool({ name: "a.b", description: "", input: z.object({}), run: () => "" });
    await expect(createTestKit({ tools: [dotted] })).rejects.toThrow("custom tool a.b: a.b is not a valid tool name");
  });

  it("[KO-019] say what they do to the world", async () => {
    await using kit = await createTestKit({
      entities: [Visit],
      settings: { operations: ["List", "Create", "Update", "Delete"] },
    });
    const { tools } = await (await connectInMemory(kit)).listTools();
    expect(tools.map(({ annotations }) => annotations)).toMatchObject([
      { title: "List Visit", readOnlyHint: true, destructiveHint: false, idempotentHint: true },
      { title: "Create Visit", readOnlyHint: false, destructiveHint: false, idempotentHint: false },
      { title: "Update Visit", readOnlyHint: false, destructiveHint: false, idempotentHint: true },
      { title: "Delete Visit", readOnlyHint: false, destructiveHint: true, idempotentHint: true },
    ]);
  });

  it("[KO-024] follow the lists of allowed and denied entities, where deny wins and case does not count", async () => {
    const settings = { operations: ["Get" as const] };
    const entities = [Site, Visit];
    await using allowed = await createTestKit({
      entities,
      settings: { ...settings, allowedEntities: ["visit"] },
    });
    expect(await namesFor(allowed)).toEqual(["Visit_Get"]);
    const both = { allowedEntities: ["Visit", "TrialSite"], deniedEntities: ["VISIT"] };
    await using denied = await createTestKit({ entities, settings: { ...settings, ...both } });
    expect(await namesFor(denied)).toEqual(["TrialSite_Get"]);
  });

  it("[KO-025] take overrides before declarations, and those before the server", async () => {
    await using kit = await createTestKit({
      entities: [Site],
      settings: {
        entityOverrides: {
          trialsite: {
            requireAuthentication: true,
            requiredScopes: ["other"],
            enabledTransports: ["http-sse"],
            description: "Overridden.",
            allowMutations: false,
          },
        },
      },
    });
    const principal = principalNamed("x", { scopes: new Set(["other"]) });
    expect(await namesFor(kit, principal, "streamable-http")).toEqual([]);
    expect(await namesFor(kit, principal, "http-sse")).toEqual(["TrialSite_List", "TrialSite_Get"]);
    expect(kit.core.capabilityTools(principal)[0]).toMatchObject({
      description: "Lists TrialSite records, page by page, with filter and sort. Overridden.",
      requireAuthentication: true,
      requiredScopes: ["other"],
      enabledTransports: ["http-sse"],
    });
  });

  it("[KO-026] warn of names that no entity has, and refuse them in strict mode", async () => {
    const settings = {
      allowedEntities: ["Visit", "Vist"],
      deniedEntities: ["No"],
      entityOverrides: { Nope: {} },
    };
    await using kit = await createTestKit({ entities: [Visit], settings });
    expect(kit.warnings()).toEqual(
      expect.arrayContaining([
        "allowedEntities names the unknown entity Vist",
        "deniedEntities names the unknown entity No",
        "entityOverrides names the unknown entity Nope",
      ]),
    );
    await expect(createTestKit({ entities: [Visit], settings: { ...settings, strict: true } })).rejects.toThrow("Vist");
  });

  it("[KO-028] are described by the same objects for everybody who sees the same", () => {
    const clock = { now: () => 0, wall: () => 0 };
    const parts = { store: memoryStore(), cursors: createCursors("x"), clock, newUuid: () => "", turns: createTurns() };
    const settings = parseSettings({ requireAuthentication: true }, { deployed: false, name: "test" });
    const catalogue = createToolCatalog(
      [createRecords(modelOf(Site), parts), createRecords(modelOf(Visit), parts)],
      [],
      settings,
    );
    const listFor = (principal: Principal) => catalogue.list({ principal, via: "http-sse" });
    expect(listFor(operator)).toBe(listFor(principalNamed("other", { scopes: operator.scopes })));
    expect(listFor(stranger)).not.toBe(listFor(operator));
    expect(listFor(stranger)[0]?.inputSchema).toBe(listFor(operator)[5]?.inputSchema);
  });

  it("[KO-139] let anonymous callers pass scopes in development only, and say so", async () => {
    await using lax = await createTestKit({ entities: [Site] });
    expect(await namesFor(lax)).toHaveLength(5);
    // Logging in never shows less, but the scopes of a caller that has logged in count.
    expect(await namesFor(lax, stranger)).toHaveLength(5);
    expect(lax.core.capabilityTools(stranger)).toHaveLength(5);
    await expect(
      (await connectInMemory(lax, stranger)).callTool({ name: "TrialSite_List", arguments: {} }),
    ).rejects.toMatchObject({ code: 4031 });
    expect(lax.warnings().join()).toContain("5 tools require scopes, but anonymous callers may call them");
    await using deployed = await createTestKit({
      entities: [Site],
      environment: { deployed: true, name: "production" },
      settings: { requireAuthentication: false },
    });
    expect(await namesFor(deployed)).toEqual([]);
  });

  it("[KO-117] are in the capability document exactly as in the list", async () => {
    const local = defineEntity("Local", z.object({ id: z.string() }), { enabledTransports: ["stdio"] });
    await using kit = await createTestKit({ entities: [Site, Visit, local] });
    for (const principal of [operator, stranger]) {
      const described = kit.core.capabilityTools(principal).map(({ name }) => name);
      expect(described).toEqual(await namesFor(kit, principal, "http-sse"));
    }
    expect(kit.core.capabilityTools(operator)[0]).toEqual({
      name: "TrialSite_List",
      description: "Lists TrialSite records, page by page, with filter and sort. Clinical trial sites.",
      requireAuthentication: false,
      requiredScopes: ["clinical:operations"],
      enabledTransports: ["stdio", "http-sse", "streamable-http"],
      entity: "TrialSite",
      operation: "List",
    });
  });

  it("[KO-142] follow a reload, except for what needs a restart", async () => {
    await using kit = await createTestKit({ entities: [Visit] });
    const client = await connectInMemory(kit);
    const notes = kit.reload({
      enableHttpSseTransport: true,
      deniedEntities: ["Visit"],
      httpSseRoute: "/other",
    });
    expect(notes).toEqual(["httpSseRoute changed; restart to apply it"]);
    expect(kit.settings().httpSseRoute).toBe("/mcp");
    expect((await client.listTools()).tools).toEqual([]);
    await expect(client.callTool({ name: "Visit_List", arguments: {} })).rejects.toMatchObject({
      code: -32_602,
    });
  });
});

function someLogin() {
  return { identify: () => undefined };
}
