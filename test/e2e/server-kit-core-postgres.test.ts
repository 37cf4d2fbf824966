import { boolean, jsonb, pgTable, timestamp, uuid } from "drizzle-orm/pg-core";
import pg from "pg";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { z } from "zod";

import { createServerKit, defineEntity, entityFromTable, postgresStore } from "../../src/server-kit/index.ts";
import { describeStore } from "../support/entity-store-contract.ts";
import { principalNamed } from "../support/principals.ts";
import { connectInMemory, createTestKit, quietLog, requestRest } from "../support/server-kit.ts";
import { startPostgres, type PostgresServer } from "../support/postgres.ts";

let server: PostgresServer;
beforeAll(async () => {
  server = await startPostgres();
});
afterAll(async () => server[Symbol.asyncDispose]());

describeStore("postgres", async () => {
  const client = new pg.Client({ connectionString: server.connectionString });
  await client.connect();
  await client.query('DROP TABLE IF EXISTS "Sample", "Unique"');
  await client.end();
  return postgresStore(server.connectionString);
});

describe("a kit on PostgreSQL", () => {
  const Note = defineEntity("Note", z.object({ id: z.uuid(), text: z.string(), pinned: z.boolean().default(false) }));

  it("keeps records in a pool of the host's, and leaves the pool open", async () => {
    const pool = new pg.Pool({ connectionString: server.connectionString });
    const kit = await createServerKit({
      name: "notes",
      entities: [Note],
      store: postgresStore(pool),
      log: quietLog(),
      env: {},
    });
    const { id } = await kit.records(Note).create({ text: "kept" });
    await kit.shutdown();
    const { rows } = await pool.query<{ text: string }>('SELECT text FROM "Note" WHERE id = $1', [id]);
    await pool.end();
    expect(rows).toEqual([{ text: "kept" }]);
  });

  it("serves a Drizzle table with the database's own types, microseconds among them", async () => {
    const visits = pgTable("visits", {
      id: uuid("visit_id").primaryKey(),
      done: boolean("is_done").notNull().default(false),
      at: timestamp("created_at", { withTimezone: true }).notNull(),
      data: jsonb("data"),
    });
    const pool = new pg.Pool({ connectionString: server.connectionString });
    await pool.query("DROP TABLE IF EXISTS visits");
    await pool.query(
      "CREATE TABLE visits (visit_id uuid PRIMARY KEY, is_done boolean NOT NULL, created_at timestamptz NOT NULL, data jsonb)",
    );
    await pool.query(
      "INSERT INTO visits SELECT gen_random_uuid(), n % 2 = 0, '2026-01-01T00:00:00.123456Z'::timestamptz + n * interval '1 microsecond', '{\"n\": [1]}' FROM generate_series(1, 5) n",
    );
    const Visit = entityFromTable("Visit", visits);
    const kit = await createTestKit({ entities: [Visit], store: postgresStore(pool) });
    const seen: unknown[] = [];
    for (let cursor: string | undefined, page = 0; page === 0 || cursor !== undefined; page++) {
      const query = new URLSearchParams({
        pageSize: "2",
        sort: "-at",
        ...(cursor === undefined ? {} : { cursor }),
      });
      const { body } = await requestRest(kit, `/api/Visit?${query.toString()}`);
      const { items, nextCursor } = body as { items: { id: string }[]; nextCursor?: string };
      seen.push(...items.map(({ id }) => id));
      cursor = nextCursor;
    }
    expect(new Set(seen).size).toBe(5);
    expect(seen).toHaveLength(5);
    const [first] = await kit.records(Visit).list({ done: false });
    expect(first).toMatchObject({ done: false, at: "2026-01-01T00:00:00.123Z", data: { n: [1] } });
    const path = `/api/Visit/${first?.id ?? ""}`;
    const changed = await requestRest(kit, path, { method: "PATCH", body: { done: true, data: { n: 2 } } });
    expect(changed).toMatchObject({ status: 200, body: { done: true, data: { n: 2 } } });
    expect(await requestRest(kit, path)).toMatchObject({ body: { done: true, data: { n: 2 } } });
    await kit.shutdown();
    await pool.end();
  });

  it("fails a call in words while the database is away, and works again afterwards", async () => {
    const kit = await createServerKit({
      name: "notes",
      entities: [Note],
      store: postgresStore(server.connectionString),
      log: quietLog(),
      env: {},
      environment: { deployed: false, name: "test" },
      settings: { enableHttpSseTransport: true },
    });
    await using _ = kit;
    const list = async (): Promise<Response> => kit.fetch(new Request("http://localhost/api/Note"));
    expect((await list()).status).toBe(200);
    await server.stop();
    const failed = await list();
    expect(failed.status).toBe(503);
    expect(await failed.json()).toEqual({
      error: "store_failed",
      message: "the store did not answer; try again later",
    });
    expect(await kit.health()).toMatchObject({ status: "degraded" });
    await server.start();
    await expect.poll(async () => (await list()).status).toBe(200);
  });
});

describe("records on PostgreSQL, for callers and for the host", () => {
  const Order = defineEntity("Order", z.object({ id: z.string(), owner: z.string(), code: z.string() }), {
    visibleTo: ({ id }) => ({ owner: id }),
    unique: ["code"],
  });
  const ann = principalNamed("ann");

  it("holds ownership for writes, refuses NUL and equal codes, and lists everything", async () => {
    await using kit = await createTestKit({ entities: [Order], store: postgresStore(server.connectionString) });
    const client = await connectInMemory(kit, ann);
    const create = async (order: Record<string, string>) => {
      const result = await client.callTool({ name: "Order_Create", arguments: order });
      return (result._meta?.["headgate/error"] as { code?: string } | undefined)?.code ?? "stored";
    };
    expect(await create({ id: "1", owner: "ann", code: "a" })).toBe("stored");
    expect(await create({ id: "2", owner: "bob", code: "b" })).toBe("forbidden");
    expect(await create({ id: "3", owner: "ann", code: "c\0" })).toBe("validation_failed");
    expect(await create({ id: "4", owner: "ann", code: "a" })).toBe("conflict");
    await kit.transaction(async (records) => {
      for (let index = 0; index < 1100; index += 1) {
        await records(Order).create({ id: `x${index}`, owner: "bob", code: `x${index}` });
      }
    });
    expect(await kit.records(Order).list()).toHaveLength(1101);
    expect(await kit.records(Order).as(ann).list()).toHaveLength(1);
  });
});
