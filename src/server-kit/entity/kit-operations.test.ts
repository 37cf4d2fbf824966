import { describe, expect, it } from "vitest";
import { z } from "zod";

import { createFakeTime } from "../../../test/support/fake-time.ts";
import { principalNamed } from "../../../test/support/principals.ts";
import { connectInMemory, createTestKit, type TestKit } from "../../../test/support/server-kit.ts";
import { defineEntity, operationNames } from "./entity.ts";
import { kitFailure } from "./failure.ts";
import { memoryStore } from "../stores/memory.ts";
import { sqliteStore } from "../stores/sqlite.ts";

const Site = defineEntity(
  "Site",
  z.object({
    id: z.string().describe("The key."),
    name: z.string().min(2).describe("What people call it."),
    size: z.int().default(10),
    note: z.string().optional(),
    secret: z.string().default("hush"),
    state: z.enum(["open", "closed"]).default("open"),
    revision: z.int(),
    updatedAt: z.iso.datetime(),
  }),
  {
    generated: { updatedAt: "updatedAt" },
    hidden: ["secret"],
    readOnly: ["state"],
    version: "revision",
    operations: operationNames,
  },
);

async function createSiteKit(): Promise<TestKit> {
  const { clock, setTimer } = createFakeTime();
  return createTestKit({ entities: [Site], clock, setTimer });
}

interface Result {
  readonly value: unknown;
  readonly error: string | undefined;
  readonly text: string;
  readonly code: unknown;
}

async function call(kit: TestKit, operation: string, given: Record<string, unknown> = {}): Promise<Result> {
  const client = await connectInMemory(kit);
  const result = await client.callTool({ name: `Site_${operation}`, arguments: given });
  const [block] = result.content;
  const text = block?.type === "text" ? block.text : "";
  const meta = result["_meta"]?.["headgate/error"] as { code?: string } | undefined;
  return {
    value: result.structuredContent,
    error: result.isError === true ? text : undefined,
    text,
    code: meta?.code,
  };
}

const made = {
  id: "a",
  name: "Oslo",
  size: 10,
  state: "open",
  revision: 1,
  updatedAt: "2026-01-01T00:00:00.000Z",
};

describe("operations of an entity", () => {
  it("[KO-013] [KO-017] give data and the same JSON as text, without hidden fields", async () => {
    await using kit = await createSiteKit();
    const { value, text } = await call(kit, "Create", { id: "a", name: "Oslo" });
    expect(value).toEqual(made);
    expect(JSON.parse(text)).toEqual(value);
    expect((await call(kit, "List")).value).toEqual({ items: [made] });
  });

  it("[KO-012] [KO-013] [KO-014] list page by page, sorted and filtered, with a total only on request", async () => {
    await using kit = await createSiteKit();
    for (const [id, size] of [
      ["a", 3],
      ["b", 1],
      ["c", 2],
      ["d", 2],
    ] as const) {
      await call(kit, "Create", { id, name: `Site ${id}`, size });
    }
    const request = { pageSize: 2, sort: ["-size"], filter: { size: { lte: 2 } } };
    const first = await call(kit, "List", { ...request, includeTotal: true });
    expect(first.value).toMatchObject({ items: [{ id: "c" }, { id: "d" }], total: 3 });
    const { nextCursor } = first.value as { nextCursor: string };
    const second = await call(kit, "List", { ...request, cursor: nextCursor });
    expect(second.value).toEqual({ items: [expect.objectContaining({ id: "b" })] });
    const foreign = await call(kit, "List", { cursor: nextCursor });
    expect(foreign).toMatchObject({
      code: "validation_failed",
      error: expect.stringContaining("cursor: not a cursor of this list"),
    });
  });

  it.each([
    [{ pageSize: 0 }, "pageSize: expected an integer from 1 to 200"],
    [{ pageSize: 201 }, "pageSize: expected an integer from 1 to 200"],
    [{ page: 1 }, "page: unknown argument"],
    [{ sort: ["secret"] }, "sort.0: not a sortable field"],
    [{ filter: { secret: "hush" } }, "filter.secret: not a filterable field"],
    [{ cursor: 1 }, "cursor: expected string"],
  ])("[KO-012] [KO-022] refuse to list with %j", async (given, message) => {
    await using kit = await createSiteKit();
    expect((await call(kit, "List", given)).error).toBe(`invalid arguments: ${message}`);
  });

  it("[KO-022] name every field and rule that was broken", async () => {
    await using kit = await createSiteKit();
    expect((await call(kit, "Create", { name: "x", state: "closed", secret: "y" })).error).toBe(
      "invalid arguments: state: unknown argument; secret: unknown argument; " +
        "id: Invalid input: expected string, received undefined; name: Too small: expected string to have >=2 characters",
    );
  });

  it("[KO-015] say the same of a record that is not there and one that cannot be seen", async () => {
    const Own = defineEntity("Site", z.object({ id: z.string(), owner: z.string() }), {
      visibleTo: ({ id }) => ({ owner: id }),
    });
    await using kit = await createTestKit({ entities: [Own] });
    await kit.records(Own).create({ id: "theirs", owner: "somebody" });
    await kit.records(Own).create({ id: "mine", owner: "me" });
    const client = await connectInMemory(kit, principalNamed("me"));
    for (const [name, more] of [
      ["Site_Get", {}],
      ["Site_Update", { owner: "me" }],
      ["Site_Delete", {}],
    ] as const) {
      const [absent, invisible] = await Promise.all(
        ["none", "theirs"].map(async (id) => client.callTool({ name, arguments: { id, ...more } })),
      );
      expect(invisible).toEqual(absent);
      expect(invisible).toMatchObject({ isError: true, content: [{ text: "Site not found" }] });
    }
    const { structuredContent } = await client.callTool({ name: "Site_List", arguments: {} });
    expect(structuredContent).toEqual({ items: [{ id: "mine", owner: "me" }] });
    expect(await kit.records(Own).count()).toBe(2);
  });

  it("[KO-016] [KO-017] advertise what can be sent, with descriptions", async () => {
    await using kit = await createSiteKit();
    const { tools } = await (await connectInMemory(kit)).listTools();
    const schemaOf = (name: string) => tools.find((tool) => tool.name === `Site_${name}`);
    expect(schemaOf("Create")?.inputSchema).toEqual({
      type: "object",
      properties: {
        id: { type: "string", description: "The key." },
        name: { type: "string", minLength: 2, description: "What people call it." },
        size: expect.objectContaining({ type: "integer", default: 10 }),
        note: { type: "string" },
      },
      required: ["id", "name"],
      additionalProperties: false,
    });
    expect(schemaOf("Update")?.inputSchema).toMatchObject({
      required: ["id"],
      properties: {
        note: { anyOf: [{ type: "string" }, { type: "null" }] },
        expectedVersion: { type: "integer" },
      },
    });
    expect(JSON.stringify(tools)).not.toContain("secret");
    expect(schemaOf("Get")?.outputSchema).toMatchObject({
      properties: { state: {}, revision: {}, updatedAt: {} },
    });
  });

  it("[KO-018] never let out what does not fit their output schema", async () => {
    const store = memoryStore();
    await using kit = await createTestKit({ entities: [Site], store });
    await kit.records(Site).create({ id: "a", name: "Oslo" });
    const broken = { ...store, list: async () => [{ id: "a", name: 5 }] };
    await using other = await createTestKit({ entities: [Site], store: broken });
    const client = await connectInMemory(other);
    await expect(client.callTool({ name: "Site_Get", arguments: { id: "a" } })).rejects.toMatchObject({
      code: -32_603,
      message: expect.stringMatching(/internal error [\da-f]{32}$/u),
    });
  });

  it("change only the given fields, clear with null, and never fill in defaults", async () => {
    await using kit = await createSiteKit();
    await call(kit, "Create", { id: "a", name: "Oslo", size: 3, note: "x" });
    const { value } = await call(kit, "Update", { id: "a", note: null });
    expect(value).toEqual({ ...made, size: 3, revision: 2 });
  });

  it("refuse a change of another version than the caller thought", async () => {
    await using kit = await createSiteKit();
    await call(kit, "Create", { id: "a", name: "Oslo" });
    expect((await call(kit, "Update", { id: "a", name: "Bergen", expectedVersion: 1 })).value).toMatchObject({
      revision: 2,
    });
    const late = await call(kit, "Update", { id: "a", name: "Moss", expectedVersion: 1 });
    expect(late).toMatchObject({
      code: "version_mismatch",
      error: "the Site has version 2, not 1; get it again and retry",
    });
    expect((await call(kit, "Delete", { id: "a", expectedVersion: 1 })).code).toBe("version_mismatch");
    expect((await call(kit, "Delete", { id: "a", expectedVersion: 2 })).value).toEqual({
      id: "a",
      deleted: true,
    });
  });

  it("lose no change of several made at once", async () => {
    await using kit = await createSiteKit();
    await call(kit, "Create", { id: "a", name: "Oslo" });
    await Promise.all([call(kit, "Update", { id: "a", size: 1 }), call(kit, "Update", { id: "a", note: "n" })]);
    expect((await call(kit, "Get", { id: "a" })).value).toMatchObject({ size: 1, note: "n", revision: 3 });
  });

  it("[KO-010] upsert, count, show defaults, and change many or none", async () => {
    await using kit = await createSiteKit();
    expect((await call(kit, "New")).value).toEqual({ size: 10, state: "open" });
    expect((await call(kit, "Upsert", { id: "a", name: "Oslo", note: "n" })).value).toMatchObject({
      revision: 1,
    });
    expect((await call(kit, "Upsert", { id: "a", name: "Bergen" })).value).toEqual({
      ...made,
      name: "Bergen",
      revision: 2,
    });
    const items = [
      { id: "b", name: "Moss" },
      { id: "c", name: "Voss" },
    ];
    expect((await call(kit, "CreateMany", { items })).value).toMatchObject({
      items: [{ id: "b" }, { id: "c" }],
    });
    const twice = await call(kit, "CreateMany", {
      items: [
        { id: "d", name: "Hamar" },
        { id: "b", name: "Moss" },
      ],
    });
    expect(twice).toMatchObject({ code: "conflict", error: "another Site has this id already" });
    expect((await call(kit, "Count", { filter: { id: { in: ["b", "d"] } } })).value).toEqual({ count: 1 });
    const half = await call(kit, "UpdateMany", {
      items: [
        { id: "b", size: 1 },
        { id: "none", size: 1 },
      ],
    });
    expect(half.code).toBe("not_found");
    expect((await call(kit, "Get", { id: "b" })).value).toMatchObject({ size: 10 });
    expect((await call(kit, "UpdateMany", { items: [{ id: "b", size: 1 }] })).value).toMatchObject({
      items: [{ size: 1 }],
    });
    expect((await call(kit, "DeleteMany", { ids: ["b", "none"] })).code).toBe("not_found");
    expect((await call(kit, "DeleteMany", { ids: ["b"] })).value).toEqual({ deleted: 1 });
    expect((await call(kit, "DeleteWhere", { filter: {} })).code).toBe("validation_failed");
    expect((await call(kit, "DeleteWhere", { filter: { size: 10 }, max: 1 })).code).toBe("conflict");
    expect((await call(kit, "DeleteWhere", { filter: { size: 10 } })).value).toEqual({ deleted: 2 });
  });

  it("[KO-021] run hooks once, and tell what they refuse in their words", async () => {
    const seen: string[] = [];
    const Hooked = defineEntity("Site", z.object({ id: z.string(), name: z.string() }), {
      hooks: {
        beforeCreate: (record) => {
          seen.push(`create ${record.id}`);
          if (record.name === "no") throw kitFailure("conflict", "not with this name");
          return { ...record, name: record.name.toUpperCase() };
        },
        beforeUpdate: (record, before) => void seen.push(`update ${before.name} to ${record.name}`),
        beforeDelete: ({ id }) => void seen.push(`delete ${id}`),
        afterChange: ({ operation }) => {
          seen.push(`after ${operation}`);
          throw new Error("a hook that fails afterwards changes nothing");
        },
      },
    });
    await using kit = await createTestKit({ entities: [Hooked] });
    expect((await call(kit, "Create", { id: "a", name: "no" })).error).toBe("not with this name");
    expect((await call(kit, "Create", { id: "a", name: "yes" })).value).toEqual({ id: "a", name: "YES" });
    await call(kit, "Update", { id: "a", name: "new" });
    await call(kit, "Delete", { id: "a" });
    expect(seen).toEqual([
      "create a",
      "create a",
      "after create",
      "update YES to new",
      "after update",
      "delete a",
      "after delete",
    ]);
  });

  it("[KO-090] hide the reason of a fault and tell a store that fails from it", async () => {
    const facts: unknown[] = [];
    const failing = { ...memoryStore(), list: async () => Promise.reject(new Error("password in here")) };
    await using kit = await createTestKit({ entities: [Site], store: failing });
    kit.core.onCall(({ tool, outcome }) => facts.push([tool, outcome]));
    const { error, code } = await call(kit, "List");
    expect(error).toBe("the store did not answer; try again later");
    expect(code).toBe("store_failed");
    expect(facts).toEqual([["Site_List", "store_failed"]]);
  });
});

describe("values that nest", () => {
  const Tree = defineEntity("Tree", z.object({ id: z.string(), leaves: z.json() }), { operations: operationNames });
  const nested = (depth: number) => `${"[".repeat(depth)}${"]".repeat(depth)}`;
  const members = (depth: number) => `${'{"a":'.repeat(depth)}1${"}".repeat(depth)}`;

  it.each([
    ["memory", memoryStore],
    ["SQLite", sqliteStore],
  ])("can be read, changed and removed as deep as they can be stored, in %s", async (_name, open) => {
    await using kit = await createTestKit({ entities: [Tree], store: open() });
    const send = async (method: string, path: string, body: string) =>
      kit.fetch(
        new Request(`http://localhost/api/Tree${path}`, {
          method,
          headers: { "content-type": "application/json" },
          ...(method === "GET" || method === "DELETE" ? {} : { body }),
        }),
      );
    for (const write of [nested, members]) {
      for (const depth of [1, 100, 101, 1000, 5000, 20_000, 500_000]) {
        const created = await send("POST", "", `{"id":"t","leaves":${write(depth)}}`);
        expect([depth, created.status]).toEqual([depth, depth <= 100 ? 201 : 400]);
        expect((await send("GET", "", "")).status).toBe(200);
        if (depth > 100) continue;
        expect((await send("PATCH", "/t", `{"leaves":${write(depth + 1 > 100 ? depth : depth + 1)}}`)).status).toBe(
          200,
        );
        expect((await send("DELETE", "/t", "")).status).toBe(200);
      }
    }
  });

  it("name a field that is too deep, wherever the value comes from", async () => {
    await using kit = await createTestKit({ entities: [Tree] });
    const leaves: unknown = JSON.parse(nested(50_000));
    // The types say that it is JSON, and it is.
    const record = { id: "t", leaves } as { id: string; leaves: string };
    await expect(kit.records(Tree).create(record)).rejects.toThrow("leaves: must not contain NUL");
  });
});

describe("a record that one call names twice", () => {
  it.each([
    ["Site_UpdateMany", { items: [{ id: "a", name: "one" }, { id: "b" }, { id: "a", name: "two" }] }, "items.2"],
    ["Site_DeleteMany", { ids: ["a", "a"] }, "ids.1"],
  ])("is refused by %s, and nothing changes", async (name, given, path) => {
    await using kit = await createSiteKit();
    const client = await connectInMemory(kit);
    for (const id of ["a", "b"]) await client.callTool({ name: "Site_Create", arguments: { id, name: "old" } });
    const answer = await client.callTool({ name, arguments: given });
    expect(answer).toMatchObject({ isError: true });
    expect(JSON.stringify(answer.content)).toContain(`${path}: names the same record again`);
    expect((await kit.records(Site).list()).map((site) => site.name)).toEqual(["old", "old"]);
  });
});
