import { describe, expect, it } from "vitest";
import { z } from "zod";

import { defineEntity, modelOf } from "./entity.ts";
import { filterSchema, parseEntityFilter } from "./filter.ts";

const { filterable } = modelOf(
  defineEntity(
    "Site",
    z.object({
      id: z.string(),
      name: z.string().nullable(),
      size: z.int(),
      open: z.boolean(),
      at: z.iso.datetime(),
      phase: z.enum(["I", "II"]),
      secret: z.string().default(""),
    }),
    { hidden: ["secret"] },
  ),
);

function problem(filter: unknown): unknown {
  const parsed = parseEntityFilter(filter, filterable);
  return parsed.ok ? undefined : parsed.issues.map(({ path, message }) => `${path}: ${message}`).join("; ");
}

describe("parseFilter", () => {
  it("reads values, tests and their combinations", () => {
    const parsed = parseEntityFilter(
      { name: "Oslo", size: { gte: 1, lt: 9 }, or: [{ open: true }, { not: { phase: { in: ["I"] } } }] },
      filterable,
    );
    expect(parsed).toEqual({
      ok: true,
      tests: 5,
      condition: {
        kind: "and",
        parts: [
          { kind: "compare", field: "name", operator: "eq", value: "Oslo" },
          {
            kind: "and",
            parts: [
              { kind: "compare", field: "size", operator: "gte", value: 1 },
              { kind: "compare", field: "size", operator: "lt", value: 9 },
            ],
          },
          {
            kind: "or",
            parts: [
              { kind: "compare", field: "open", operator: "eq", value: true },
              {
                kind: "not",
                part: { kind: "and", parts: [{ kind: "in", field: "phase", values: ["I"] }] },
              },
            ],
          },
        ],
      },
    });
  });

  it.each([
    ["x", "filter: expected an object"],
    [{ none: 1 }, "filter.none: not a filterable field"],
    [{ size: "1" }, "filter.size: expected integer"],
    [{ size: { gt: 1.5 } }, "filter.size.gt: expected integer"],
    [
      { size: { like: 1 } },
      "filter.size.like: unknown operator; use eq, ne, gt, gte, lt, lte, in, contains, startsWith or isNull",
    ],
    [{ open: { contains: "x" } }, "filter.open.contains: only for free text fields"],
    [{ at: { gte: "soon" } }, "filter.at.gte: expected date-time"],
    [{ at: { startsWith: "2026" } }, "filter.at.startsWith: only for free text fields"],
    [{ name: { in: [1] } }, "filter.name.in: expected values of type string"],
    [{ name: { isNull: "yes" } }, "filter.name.isNull: expected boolean"],
    [{ or: { name: "x" } }, "filter.or: expected an array of filters"],
    [{ not: { not: { not: { name: "x" } } } }, "filter.not.not.not: is nested deeper than 3 levels"],
    [{ or: Array.from({ length: 21 }, () => ({ name: "x" })) }, "filter: has 21 terms; at most 20 are allowed"],
    [{ or: Array.from({ length: 21 }, () => ({})) }, "filter: has 21 terms; at most 20 are allowed"],
    [{ and: Array.from({ length: 21 }, () => ({ or: [] })) }, "filter: has 21 terms; at most 20 are allowed"],
    [{ or: Array.from({ length: 21 }, () => ({ size: {} })) }, "filter: has 21 terms; at most 20 are allowed"],
  ])("refuses %j", (filter, message) => {
    expect(problem(filter)).toBe(message);
  });

  it("[KO-017] does not know a hidden field", () => {
    expect(problem({ secret: "x" })).toBe("filter.secret: not a filterable field");
    expect(JSON.stringify(filterSchema(filterable))).not.toContain("secret");
  });

  it("says the tests of fields of one kind once", () => {
    const { filter, definitions } = filterSchema(filterable);
    expect(Object.keys(definitions)).toEqual([
      "stringTest",
      "stringOrNullTest",
      "integerTest",
      "booleanTest",
      "date-timeTest",
    ]);
    expect(filter).toMatchObject({ properties: { id: { $ref: "#/$defs/stringTest" } } });
  });
});
