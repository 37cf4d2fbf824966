import { DatabaseSync } from "node:sqlite";

import { boolean, integer as pgInteger, jsonb, pgTable, timestamp, uuid, varchar } from "drizzle-orm/pg-core";
import { integer, real, sqliteTable, text } from "drizzle-orm/sqlite-core";
import { describe, expect, expectTypeOf, it } from "vitest";

import { createTestKit, requestRest } from "../../../test/support/server-kit.ts";
import { entityFromTable } from "./drizzle.ts";
import { modelOf } from "./entity.ts";
import { sqliteStore } from "../stores/sqlite.ts";

const sites = sqliteTable("trial_sites", {
  id: text("site_id").primaryKey(),
  name: text("site_name", { length: 20 }).notNull(),
  phase: text("phase", { enum: ["I", "II"] })
    .notNull()
    .default("I"),
  weight: real("weight"),
  active: integer("is_active", { mode: "boolean" }).notNull().default(true),
  seenAt: integer("seen_at", { mode: "timestamp" }),
  extra: text("extra", { mode: "json" }),
});

const ddl =
  "CREATE TABLE trial_sites (site_id TEXT PRIMARY KEY, site_name TEXT NOT NULL, phase TEXT NOT NULL, " +
  "weight REAL, is_active INTEGER NOT NULL, seen_at INTEGER, extra TEXT)";

describe("entityFromTable", () => {
  it("serves an existing table by its own names and types", async () => {
    using database = new DatabaseSync(":memory:");
    database.exec(ddl);
    const Site = entityFromTable("Site", sites);
    await using kit = await createTestKit({ entities: [Site], store: sqliteStore(database) });
    const seenAt = "2026-02-03T04:05:06.000Z";
    const body = { id: "a", name: "Oslo", active: false, seenAt, extra: { deep: [1] } };
    const created = await requestRest(kit, "/api/Site", { method: "POST", body });
    expect(created).toMatchObject({ status: 201, body: { ...body, phase: "I", weight: null } });
    expect(database.prepare("SELECT * FROM trial_sites").get()).toMatchObject({
      site_name: "Oslo",
      is_active: 0,
      seen_at: Date.parse(seenAt) / 1000,
      extra: '{"deep":[1]}',
    });
    const filter = encodeURIComponent(JSON.stringify({ seenAt: { gte: "2026-01-01T00:00:00Z" }, active: false }));
    expect(await requestRest(kit, `/api/Site?filter=${filter}&sort=-seenAt`)).toMatchObject({
      body: { items: [{ id: "a", seenAt }] },
    });
    expect(await requestRest(kit, "/api/Site/a", { method: "PATCH", body: { name: "x".repeat(21) } })).toMatchObject({
      status: 400,
    });
  });

  it("has the types of the table, dates as text", () => {
    const Site = entityFromTable("Site", sites, {
      hooks: { beforeCreate: (record) => ({ ...record, name: record.name.trim() }) },
    });
    type Out = (typeof Site)["schema"]["_output"];
    expectTypeOf<Out["seenAt"]>().toEqualTypeOf<string | null>();
    expectTypeOf<Out["active"]>().toEqualTypeOf<boolean>();
    expect(modelOf(Site).key.name).toBe("id");
  });

  it("reads the types of PostgreSQL tables", () => {
    const table = pgTable("visits", {
      id: uuid("id").primaryKey(),
      count: pgInteger("count").notNull().default(0),
      note: varchar("note", { length: 5 }),
      done: boolean("done").notNull(),
      at: timestamp("at", { withTimezone: true }).notNull(),
      data: jsonb("data"),
    });
    const Visit = modelOf(entityFromTable("Visit", table));
    expect([...Visit.fields.values()].map(({ name, kind, nullable }) => [name, kind, nullable])).toEqual([
      ["id", "string", false],
      ["count", "integer", false],
      ["note", "string", true],
      ["done", "boolean", false],
      ["at", "string", false],
      ["data", "json", true],
    ]);
    expect(Visit.generated.get("id")).toBe("uuid");
  });

  it("refuses what it cannot serve, in words", () => {
    const loose = pgTable("loose", { id: uuid("id").primaryKey(), at: timestamp("at") });
    expect(() => entityFromTable("Loose", loose)).toThrow("entity Loose, field at: a timestamp without time zone");
    expect(() => entityFromTable("Nothing", { $inferSelect: {} })).toThrow("entity Nothing: not a Drizzle table");
  });
});
