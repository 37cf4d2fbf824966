import { describe, expect, it } from "vitest";

import { citationsInReport, citationsInSource, citedIn } from "./citations.ts";

describe("citedIn", () => {
  it.each([
    { title: "[SC-034] keeps ids apart", ids: ["SC-034"] },
    { title: "[SC-034, PA-155] keeps ids apart", ids: ["SC-034", "PA-155"] },
    { title: "[SC-034] [KO-070] keeps ids apart", ids: ["SC-034", "KO-070"] },
    { title: "[SC-9999] is read even though no such row exists", ids: ["SC-9999"] },
    { title: "keeps ids apart", ids: [] },
    { title: "keeps ids apart, see [SC-034]", ids: [] },
    { title: "[] is one error and not an empty answer", ids: [] },
    { title: "[1] and [[…]] are refused", ids: [] },
  ])("finds $ids in the title: $title", ({ title, ids }) => {
    expect(citedIn(title)).toEqual({ ids, malformed: [] });
  });

  it.each(["[SC-029..SC-031]", "[SC-029-SC-031]", "[SC-029 to SC-031]", "[SC-029…031]", "[SC-029, 030]", "[SC 29]"])(
    "takes no range and no shorthand: %s",
    (bracket) => {
      expect(citedIn(`${bracket} splits a batch`)).toEqual({ ids: [], malformed: [bracket] });
    },
  );
});

describe("citationsInSource", () => {
  it("reads titles in any quotes, on lines of their own, and in tables of cases", () => {
    const text = [
      `it("[SC-001] one", () => {});`,
      `it.each(rows)(`,
      `  '[SC-002] %s',`,
      `  () => {},`,
      `);`,
      "describe(`[SC-003, SC-004] group`, () => {});",
      `const cases = [{ title: "[SC-005] from a table" }];`,
    ].join("\n");
    const { citations, malformed } = citationsInSource("src/a.test.ts", text);
    expect(citations.map(({ id }) => id)).toEqual(["SC-001", "SC-002", "SC-003", "SC-004", "SC-005"]);
    expect(new Set(citations.map(({ file }) => file))).toEqual(new Set(["src/a.test.ts"]));
    expect(malformed).toEqual([]);
  });

  it("does not take a comment for a citation", () => {
    const text = `// SC-001 and [SC-002] say so\nconst row = table["SC-003"];`;
    expect(citationsInSource("src/a.test.ts", text).citations).toEqual([]);
  });

  it("names the file of a malformed citation", () => {
    expect(citationsInSource("src/a.test.ts", `it("[SC-001..9] all", f);`).malformed).toEqual([
      { text: "[SC-001..9]", file: "src/a.test.ts" },
    ]);
  });
});

describe("citationsInReport", () => {
  const report = {
    testResults: [
      {
        name: "/repo/src/a.test.ts",
        assertionResults: [
          { ancestorTitles: ["ids"], title: "[SC-034] keeps ids apart", status: "passed" },
          { ancestorTitles: ["[SC-035] keys"], title: "carry their type", status: "passed" },
          { ancestorTitles: [], title: "[SC-036] labels", status: "failed" },
          { ancestorTitles: ["[SC-037] parts"], title: "decode", status: "skipped" },
        ],
      },
    ],
  };

  it("believes passed tests only, whether test or group cites", () => {
    expect(citationsInReport("/repo", report).citations).toEqual([
      { id: "SC-034", file: "src/a.test.ts" },
      { id: "SC-035", file: "src/a.test.ts" },
    ]);
  });

  it("refuses what is no report", () => {
    expect(() => citationsInReport("/repo", { testResults: [{ name: 5 }] })).toThrow("not a vitest report");
  });
});
