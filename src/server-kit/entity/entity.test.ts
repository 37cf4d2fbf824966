import { describe, expect, expectTypeOf, it } from "vitest";
import { z } from "zod";

import { defineEntity, modelOf } from "./entity.ts";

const schema = z.object({
  id: z.uuid(),
  name: z.string(),
  count: z.int().default(0),
  secret: z.string().default("s"),
  tags: z.array(z.string()).optional(),
  note: z.string().nullable(),
});

describe("defineEntity", () => {
  it("[KO-002] is known by its declared name", () => {
    expect(defineEntity("TrialSite", schema).name).toBe("TrialSite");
  });

  it("makes a UUID key itself unless the client is to give it", () => {
    expect(modelOf(defineEntity("Site", schema)).generated.get("id")).toBe("uuid");
    expect(modelOf(defineEntity("Site", schema, { generated: { id: "client" } })).generated.has("id")).toBe(false);
  });

  it("filters and sorts by single values that are not hidden", () => {
    const { filterable, sortable } = modelOf(defineEntity("Site", schema, { hidden: ["secret"] }));
    expect(filterable.map(({ name }) => name)).toEqual(["id", "name", "count", "note"]);
    expect(sortable).toEqual(filterable);
  });

  it("gives hooks and filters the types of the schema, without casts", () => {
    defineEntity("Site", schema, {
      hooks: {
        beforeCreate: (record) => {
          expectTypeOf(record.count).toEqualTypeOf<number>();
          return { ...record, name: record.name.trim() };
        },
      },
      visibleTo: ({ id }) => ({ name: id, count: { gte: 1 } }),
    });
    // @ts-expect-error a field that the schema does not have
    expect(() => defineEntity("Site", schema, { hidden: ["none"] })).toThrow("option hidden names the field none");
  });

  it.each([
    [() => defineEntity("1st", schema), "entity 1st: its name must be letters"],
    [
      () => defineEntity("Site", z.object({ name: z.string() })),
      "its schema has no field id; add one, or name the field",
    ],
    [() => defineEntity("Site", z.string() as never), "its schema must be a z.object({ … })"],
    [
      () => defineEntity("Site", schema, { requiredScope: ["x"] } as never),
      "unknown option requiredScope; did you mean requiredScopes?",
    ],
    [
      () => defineEntity("Site", schema, { requiredScopes: "x" } as never),
      "option requiredScopes must be a list of strings",
    ],
    [() => defineEntity("Site", schema, { visibleTo: true } as never), "option visibleTo must be a function"],
    [
      () => defineEntity("Site", schema, { operations: ["Lst"] } as never),
      "option operations has Lst; did you mean List?",
    ],
    [
      () => defineEntity("Site", schema, { hooks: { beforeCrate: () => {} } } as never),
      "hooks: unknown option beforeCrate; did you mean beforeCreate?",
    ],
    [() => defineEntity("Site", z.object({ id: z.string().optional() })), "its key id must be a required scalar"],
    [() => defineEntity("Site", schema, { hidden: ["id"] }), "its key id cannot be hidden"],
    [() => defineEntity("Site", schema, { readOnly: ["name"] }), "clients cannot send name, so the schema needs"],
    [
      () => defineEntity("Site", schema, { version: "name" }),
      "option version names the field name, which is not an integer",
    ],
    [() => defineEntity("Site", schema, { sortable: ["tags"] }), "option sortable names tags, which is not a scalar"],
    [
      () => defineEntity("Site", schema, { filterable: ["secret"], hidden: ["secret"] }),
      "option filterable names secret, which option hidden hides",
    ],
    [
      () => defineEntity("Site", z.object({ id: z.string(), at: z.date() })),
      "entity Site, field at: JSON cannot carry this type",
    ],
    [
      () =>
        defineEntity("Site", z.object({ id: z.string(), v: z.int(), expectedVersion: z.int() }), {
          version: "v",
        }),
      "the field expectedVersion collides with the argument that option version adds",
    ],
  ])("refuses a declaration that contradicts itself, naming both sides %#", (declare, message) => {
    expect(declare).toThrow(message);
  });
});
