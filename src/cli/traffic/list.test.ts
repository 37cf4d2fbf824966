import fc from "fast-check";
import { describe, expect, it } from "vitest";

import type { StatsRow } from "../../recorder/store/store-contract.ts";
import { createColors } from "../io.ts";
import { formatRows } from "./list.ts";

const plain = createColors(false);
const row: StatsRow = {
  route: "files",
  method: "tools/call",
  target: "read_text_file",
  count: 12,
  errors: 1,
  refused: 0,
  p50Ms: 1.5,
  p95Ms: 20,
  p99Ms: 1200,
  maxMs: 61_000,
  bytes: 123_456,
};

describe("the table of `headgate traffic stats`", () => {
  it("has every column where there is room, and cuts nothing where nobody looks", () => {
    const long = { ...row, target: "x".repeat(200) };
    const text = formatRows([row, long], plain, undefined);
    expect(text).toContain("x".repeat(200));
    for (const head of ["ROUTE", "COUNT", "ERRORS", "REFUSED", "P50", "P95", "P99", "MAX", "BYTES"])
      expect(text).toContain(head);
  });

  it("cuts names first, then leaves out figures", () => {
    const [head = ""] = formatRows([row], plain, 100).split("\n");
    expect(head).toContain("P99");
    const [narrow = "", first = ""] = formatRows([{ ...row, target: "y".repeat(60) }], plain, 80).split("\n");
    expect(narrow).toMatch(/^ROUTE.*COUNT {2}ERRORS {2}REFUSED/u);
    expect(first).toContain("…");
  });

  it("fits into 60 columns and more, whatever the rows are", () => {
    const figure = fc.double({ min: 0, max: 1e9, noNaN: true });
    const count = fc.nat(999_999_999);
    const rows = fc.array(
      fc.record({
        route: fc.string({ unit: "grapheme-ascii", maxLength: 60 }),
        method: fc.constantFrom("tools/call", "notifications/resources/list_changed"),
        target: fc.option(fc.string({ unit: "grapheme-ascii", maxLength: 90 }), { nil: undefined }),
        count,
        errors: count,
        refused: count,
        p50Ms: figure,
        p95Ms: figure,
        p99Ms: figure,
        maxMs: figure,
        bytes: count,
      }),
      { minLength: 1 },
    );
    fc.assert(
      fc.property(rows, fc.integer({ min: 60, max: 200 }), (some, columns) => {
        for (const line of formatRows(some as StatsRow[], plain, columns).split("\n"))
          expect(line.length).toBeLessThanOrEqual(columns);
      }),
    );
  });
});
