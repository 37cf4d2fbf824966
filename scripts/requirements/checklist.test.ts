import { mkdtempSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join, resolve } from "node:path";

import { describe, expect, it, onTestFinished } from "vitest";

import { checklistFiles, parseChecklist, readChecklists, rowsOf, statusName, writeChecklists } from "./checklist.ts";

const folder = resolve(import.meta.dirname, "../../requirements");
const row = { id: "SC-001", text: "Something holds.", status: "open" };

function parse(change: object): unknown {
  const sections = [{ title: "All", rows: [{ ...row, ...change }] }];
  return parseChecklist("sc.json", { checklist: "SC", title: "Test", sections });
}

describe("the checklists of this repository", () => {
  const checklists = readChecklists(folder);
  const rows = rowsOf(checklists);

  it("have every row", () => {
    expect(checklists.map((checklist) => [checklist.checklist, rowsOf([checklist]).length])).toEqual([
      ["PA", 220],
      ["PX", 11],
      ["SC", 96],
      ["KO", 148],
      ["IP", 87],
    ]);
  });

  it("number their rows from one without gap or repetition", () => {
    for (const checklist of checklists) {
      const numbers = rowsOf([checklist]).map(({ id }) => Number(id.slice(3)));
      expect(numbers).toEqual(numbers.map((_number, index) => index + 1));
    }
  });

  it("refer to rows that exist", () => {
    const known = new Set(rows.map(({ id }) => id));
    const named = rows.flatMap(
      ({ text, detail }) => `${text} ${detail ?? ""}`.match(/\b(?:PA|PX|SC|KO|IP)-\d+/gu) ?? [],
    );
    expect(named.filter((id) => !known.has(id))).toEqual([]);
    expect(named.length).toBeGreaterThan(20);
  });

  it("are written back byte for byte", () => {
    const copy = mkdtempSync(join(tmpdir(), "headgate-requirements-"));
    onTestFinished(() => rmSync(copy, { recursive: true, force: true }));
    writeChecklists(copy, checklists);
    for (const file of checklistFiles) {
      expect(readFileSync(join(copy, file), "utf8")).toBe(readFileSync(join(folder, file), "utf8"));
    }
  });
});

describe("parseChecklist", () => {
  it.each([
    ["open", "open"],
    ["shown", "shown"],
    [{ bench: "bench/parse.ts" }, "bench"],
    [{ waived: "no such thing here" }, "waived"],
    [{ optIn: "live suite: needs the product" }, "opt-in"],
  ] as const)("knows the status %j", (status, name) => {
    parse({ status });
    expect(statusName(status)).toBe(name);
  });

  it.each([["done"], [{ waived: "" }], [{ waived: "a", optIn: "b" }], [{ because: "a" }], [undefined], [true]])(
    "refuses the status %j and says which row has it",
    (status) => {
      expect(() => parse({ status })).toThrow("sc.json: the status of SC-001 must be");
    },
  );

  it.each([
    [{ id: "PA-001" }, "a row without an id"],
    [{ text: "" }, "SC-001 has no text"],
    [{ source: "elsewhere" }, `SC-001 has an unknown member "source"`],
    [{ level: 5 }, "all of a row but its status is text"],
  ])("refuses a row changed by %j", (change, message) => {
    expect(() => parse(change)).toThrow(message);
  });

  it("refuses one id on two rows", () => {
    const sections = [{ title: "All", rows: [row, row] }];
    expect(() => parseChecklist("sc.json", { checklist: "SC", title: "Test", sections })).toThrow(
      "SC-001 stands twice",
    );
  });

  it("refuses a file named after another checklist", () => {
    expect(() => parseChecklist("sc.json", { checklist: "PA", title: "Test", sections: [] })).toThrow("prefix");
  });
});
