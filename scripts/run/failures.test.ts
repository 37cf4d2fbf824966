import { describe, expect, it } from "vitest";

import { failuresOf } from "./failures.ts";

const passed = { status: "passed", fullName: "a door opens", failureMessages: [] };
const failed = { status: "failed", fullName: "a door closes", failureMessages: ["Error: ajar\n    at door.test.ts:5"] };

describe("failuresOf", () => {
  it("names each failed test with its file and message, and nothing else", () => {
    const report = {
      testResults: [
        { status: "passed", name: "/tree/test/window.test.ts", assertionResults: [passed] },
        { status: "failed", name: "/tree/test/door.test.ts", assertionResults: [passed, failed] },
      ],
    };
    expect(failuresOf(report, "/tree")).toEqual([
      "FAILED test/door.test.ts > a door closes\n  Error: ajar\n      at door.test.ts:5",
    ]);
  });

  it("names a file that could not be loaded", () => {
    const file = { status: "failed", name: "/tree/a.test.ts", message: "no such module", assertionResults: [] };
    expect(failuresOf({ testResults: [file] }, "/tree")).toEqual(["FAILED a.test.ts\n  no such module"]);
  });

  it("cuts a long message and says by how much", () => {
    const long = { ...failed, failureMessages: [Array.from({ length: 40 }, (_, index) => `line ${index}`).join("\n")] };
    const [shown] = failuresOf({ testResults: [{ status: "failed", name: "/a", assertionResults: [long] }] }, "/");
    expect(shown).toContain("line 24\n  … 15 more lines");
    expect(shown).not.toContain("line 25");
  });

  it("finds nothing in a report that names no failure, or in none", () => {
    expect(failuresOf({ testResults: [] }, "/")).toEqual([]);
    expect(failuresOf(undefined, "/")).toEqual([]);
  });
});
