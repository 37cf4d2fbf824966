import { describe, expect, it } from "vitest";
import { z } from "zod";

import { principalNamed } from "../../../test/support/principals.ts";
import { connectInMemory, createTestKit } from "../../../test/support/server-kit.ts";
import { thrownMessage } from "../../lib/thrown-message.ts";
import { memoryStore } from "../stores/memory.ts";
import { sqliteStore } from "../stores/sqlite.ts";
import type { RecordsOf } from "../create-server-kit.ts";
import { defineEntity } from "./entity.ts";
import { kitFailure } from "./failure.ts";

const Order = defineEntity(
  "Order",
  z.object({ id: z.string(), owner: z.string(), total: z.number().default(0), note: z.string().optional() }),
  { visibleTo: ({ id }) => ({ owner: id }), operations: ["List", "Get", "Create", "Update", "Upsert"] },
);
const Item = defineEntity("Item", z.object({ id: z.uuid(), code: z.string(), left: z.int(), version: z.int() }), {
  version: "version",
  unique: ["code"],
  indexes: [["left", "code"]],
});
const ann = principalNamed("ann");

describe.each([
  ["memory", memoryStore],
  ["sqlite", sqliteStore],
] as const)("records for the host's own code, in %s", (_, store) => {
  const create = async () => createTestKit({ entities: [Order, Item], store: store() });

  it("lists and iterates over everything", async () => {
    await using kit = await create();
    for (let index = 0; index < 1203; index += 1) {
      await kit.records(Order).create({ id: String(index).padStart(4, "0"), owner: "x", total: 1 });
    }
    expect(await kit.records(Order).list()).toHaveLength(1203);
    expect(await kit.records(Order).list({ owner: "x" }, 5)).toHaveLength(5);
    let sum = 0;
    for await (const { total } of kit.records(Order).each({ id: { gte: "0003" } })) sum += total;
    expect(sum).toBe(1200);
  });

  it("changes and deletes records, with versions where the entity has them", async () => {
    await using kit = await create();
    const items = kit.records(Item);
    const { id } = await items.create({ code: "a", left: 2 });
    expect(await items.update(id, { left: 1 })).toMatchObject({ left: 1, version: 2 });
    await expect(items.update(id, { left: 0 }, { expectedVersion: 1 })).rejects.toThrow("has version 2, not 1");
    await items.delete(id, { expectedVersion: 2 });
    await expect(items.get(id)).rejects.toThrow("Item not found");
    await expect(items.delete(id)).rejects.toThrow("Item not found");
  });

  it("acts as a caller, who sees and stores only what is visible to it", async () => {
    await using kit = await create();
    await kit.records(Order).create({ id: "1", owner: "bob" });
    const hers = kit.records(Order).as(ann);
    await hers.create({ id: "2", owner: "ann" });
    expect((await hers.list()).map(({ id }) => id)).toEqual(["2"]);
    await expect(hers.get("1")).rejects.toThrow("Order not found");
    await expect(hers.create({ id: "3", owner: "bob" })).rejects.toThrow("may not store");
    await expect(hers.update("2", { owner: "bob" })).rejects.toThrow("may not store");
    await expect(hers.delete("1")).rejects.toThrow("Order not found");
    expect(await kit.records(Order).count()).toBe(2);
  });

  it("refuses a unique value twice and names the fields", async () => {
    await using kit = await create();
    const items = kit.records(Item);
    await items.create({ code: "a", left: 1 });
    const { id } = await items.create({ code: "b", left: 1 });
    const message = "another Item has this id or code already";
    await expect(items.create({ code: "a", left: 1 })).rejects.toThrow(message);
    await expect(items.update(id, { code: "a" })).rejects.toThrow(message);
  });

  it("makes all changes of a transaction or none, and repeats it when another writer was faster", async () => {
    const changes: string[] = [];
    const Watched = defineEntity("Watched", z.object({ id: z.string(), left: z.int() }), {
      hooks: { afterChange: ({ operation, record }) => void changes.push(`${operation} ${record.id}`) },
    });
    await using kit = await createTestKit({ entities: [Order, Watched], store: store() });
    await kit.records(Watched).create({ id: "w", left: 2 });
    changes.length = 0;

    const failed = kit.transaction(async (records) => {
      await records(Watched).update("w", { left: 0 });
      expect(await records(Watched).get("w")).toMatchObject({ left: 0 });
      throw kitFailure("conflict", "changed my mind");
    });
    await expect(failed).rejects.toThrow("changed my mind");
    expect([await kit.records(Watched).get("w"), changes]).toEqual([{ id: "w", left: 2 }, []]);

    let attempts = 0;
    await kit.transaction(async (records) => {
      attempts += 1;
      const { left } = await records(Watched).get("w");
      // Another writer, once, after the read.
      if (attempts === 1) await kit.records(Watched).update("w", { left: 1 });
      await records(Watched).update("w", { left: left - 1 });
      await records(Order).create({ id: "o", owner: "x", total: left });
    });
    expect(attempts).toBe(2);
    expect(await kit.records(Watched).get("w")).toEqual({ id: "w", left: 0 });
    expect(await kit.records(Order).get("o")).toMatchObject({ total: 1 });
    expect(changes).toEqual(["update w", "update w"]);
  });

  const Board = defineEntity("Board", z.object({ id: z.string(), n: z.int(), ...fields }));

  it("loses no change of many writers of one record, and refuses none of them", async () => {
    await using kit = await createTestKit({ entities: [Board], store: store() });
    await kit.records(Board).create({ id: "b", n: 0 });
    const names = Object.keys(fields);
    const statuses = names.map(async (name) => {
      const body = JSON.stringify({ [name]: 1 });
      const headers = { "content-type": "application/json" };
      return (await kit.fetch(new Request("http://localhost/api/Board/b", { method: "PATCH", headers, body }))).status;
    });
    const added = names.map(async () =>
      kit.transaction(async (records) => {
        const { n } = await records(Board).get("b");
        await records(Board).update("b", { n: n + 1 });
      }),
    );
    expect(new Set(await Promise.all(statuses))).toEqual(new Set([200]));
    await Promise.all(added);
    const ones = Object.fromEntries(names.map((name) => [name, 1]));
    expect(await kit.records(Board).get("b")).toEqual({ id: "b", n: names.length, ...ones });
  });

  it("creates once and removes in the end, however many write at the same time", async () => {
    const All = defineEntity("All", z.object({ id: z.string(), n: z.int() }), {
      operations: ["Get", "Update", "Upsert", "Delete", "DeleteWhere"],
    });
    await using kit = await createTestKit({ entities: [All], store: store() });
    const send = async (method: string, path: string, given?: object) => {
      const headers = { "content-type": "application/json" };
      const body = given === undefined ? {} : { body: JSON.stringify(given) };
      return (await kit.fetch(new Request(`http://localhost/api/All${path}`, { method, headers, ...body }))).status;
    };
    const many = [...Array.from({ length: 20 }).keys()];
    const put = await Promise.all(many.map(async (n) => send("PUT", "/a", { n })));
    expect(new Set(put)).toEqual(new Set([200]));
    const updates = many.map(async (n) => send("PATCH", "/a", { n }));
    const removals = many.map(async (n) =>
      n % 2 === 0 ? send("DELETE", "/a") : send("POST", "/$deleteWhere", { filter: { id: "a" } }),
    );
    const statuses = await Promise.all([...updates, ...removals]);
    expect(statuses.filter((status) => status !== 200 && status !== 404)).toEqual([]);
    expect(await send("GET", "/a")).toBe(404);
  });

  it("loses no change inside of a transaction", async () => {
    await using kit = await createTestKit({ entities: [Board], store: store() });
    await kit.records(Board).create({ id: "b", n: 0 });
    await kit.transaction(async (records) => {
      await Promise.all(Object.keys(fields).map(async (name) => records(Board).update("b", { [name]: 1 })));
      await records(Board).create({ id: "c", n: 1 });
      await expect(records(Board).create({ id: "c", n: 2 })).rejects.toThrow("another Board has this");
      await records(Board).delete("c");
      await records(Board).create({ id: "c", n: 3 });
    });
    expect(Object.values(await kit.records(Board).get("b")).filter((value) => value === 1)).toHaveLength(30);
    expect(await kit.records(Board).get("c")).toMatchObject({ n: 3 });
  });

  it.each(["ends", "fails"])("takes no change into a transaction that %s: it would be lost", async (how) => {
    await using kit = await createTestKit({ entities: [Board], store: store() });
    let late: RecordsOf | undefined;
    const ended = kit.transaction(async (records) => {
      late = records;
      await records(Board).create({ id: "b", n: 0 });
      if (how === "fails") throw new Error("changed my mind");
    });
    expect(await ended.then(() => "ends", thrownMessage)).toBe(how === "fails" ? "changed my mind" : "ends");
    const records = late?.(Board);
    const calls = [
      records?.create({ id: "c", n: 0 }),
      records?.update("b", { n: 1 }),
      records?.list(),
      records?.count(),
    ];
    for (const call of calls) await expect(call).rejects.toThrow("the transaction is over");
    expect(await kit.records(Board).list()).toHaveLength(how === "fails" ? 0 : 1);
  });

  it("lets hooks change records while others wait for their turn", async () => {
    const Total = defineEntity("Total", z.object({ id: z.string(), n: z.int() }));
    const Part = defineEntity("Part", z.object({ id: z.string(), n: z.int() }), {
      hooks: {
        beforeUpdate: async () => {
          const { n } = await kit.records(Total).get("t");
          await kit.records(Total).update("t", { n: n + 1 });
        },
      },
    });
    const kit = await createTestKit({ entities: [Part, Total], store: store() });
    await kit.records(Total).create({ id: "t", n: 0 });
    await kit.records(Part).create({ id: "p", n: 0 });
    await Promise.all(Array.from({ length: 20 }, async (_each, n) => kit.records(Part).update("p", { n })));
    expect((await kit.records(Total).get("t")).n).toBeGreaterThan(0);
    await kit.shutdown();
  });
});

/** Fields for as many writers. */
const fields = Object.fromEntries(Array.from({ length: 30 }, (_each, at) => [`f${at}`, z.int().default(0)]));

describe("records that callers store", () => {
  const calls = [
    ["Order_Create", { id: "9", owner: "victim" }],
    ["Order_Update", { id: "1", owner: "victim" }],
    ["Order_Upsert", { id: "9", owner: "victim" }],
    ["Order_Upsert", { id: "1", owner: "victim" }],
  ] as const;

  it.each(calls)("are refused when the caller could not see them: %s %j", async (name, given) => {
    await using kit = await createTestKit({ entities: [Order] });
    await kit.records(Order).create({ id: "1", owner: "ann" });
    const result = await (await connectInMemory(kit, ann)).callTool({ name, arguments: given });
    expect(result).toMatchObject({ isError: true, _meta: { "headgate/error": { code: "forbidden" } } });
    expect(await kit.records(Order).list()).toEqual([{ id: "1", owner: "ann", total: 0 }]);
  });

  const unstorable = ["a\0b", "\uD800", "x\uDC00y"];

  it.each(unstorable)("are refused with text that not every store keeps: %j", async (text) => {
    const Doc = defineEntity(
      "Doc",
      z.object({ id: z.string(), text: z.string(), more: z.record(z.string(), z.string()) }),
    );
    await using kit = await createTestKit({ entities: [Doc] });
    const client = await connectInMemory(kit, ann);
    const given = [
      ["Doc_Create", { id: "1", text, more: {} }],
      ["Doc_Create", { id: "1", text: "", more: { a: text } }],
      ["Doc_Create", { id: "1", text: "", more: { [text]: "" } }],
      ["Doc_List", { filter: { text } }],
      ["Doc_List", { filter: { text: { contains: text } } }],
      ["Doc_List", { filter: { text: { in: [text] } } }],
    ] as const;
    for (const [name, args] of given) {
      const result = await client.callTool({ name, arguments: args });
      expect(result).toMatchObject({ isError: true, _meta: { "headgate/error": { code: "validation_failed" } } });
    }
    expect(await kit.records(Doc).count()).toBe(0);
  });
});
