import { describe, expect, it } from "vitest";

import { marked, problemsOf, unmarked, type Evidence } from "./audit.ts";
import { rowsOf, type Checklist, type Status } from "./checklist.ts";

function checklist(statuses: Readonly<Record<string, Status>>): Checklist[] {
  const rows = Object.entries(statuses).map(([id, status]) => ({ id, text: "Something holds.", status }));
  return [{ checklist: "SC", title: "Test", sections: [{ title: "All", rows }] }];
}

function evidence(tests: readonly string[], benches: readonly string[] = []): Evidence {
  return {
    tests: { citations: tests.map((id) => ({ id, file: "src/a.test.ts" })), malformed: [] },
    benches: { citations: benches.map((id) => ({ id, file: "bench/parse.ts" })), malformed: [] },
  };
}

describe("problemsOf", () => {
  it("is content when every mark has its citation and open rows have none", () => {
    const rows = checklist({
      "SC-001": "shown",
      "SC-002": { bench: "bench/parse.ts" },
      "SC-003": { waived: "needs a moon" },
      "SC-004": { optIn: "test/opt-in/live.test.ts: needs the product" },
      "SC-005": "open",
    });
    expect(problemsOf(rows, evidence(["SC-001"], ["SC-002"]))).toEqual([]);
  });

  it("finds a row that is marked shown and that nothing cites", () => {
    expect(problemsOf(checklist({ "SC-001": "shown" }), evidence([]))).toEqual([
      "SC-001 is marked shown, but no passing test cites it",
    ]);
  });

  it("does not take a benchmark for a test", () => {
    expect(problemsOf(checklist({ "SC-001": "shown" }), evidence([], ["SC-001"]))).toHaveLength(1);
  });

  it("finds a row whose benchmark does not cite it", () => {
    expect(problemsOf(checklist({ "SC-001": { bench: "bench/sse.ts" } }), evidence([], ["SC-001"]))).toEqual([
      "SC-001 is marked as shown by bench/sse.ts, which does not cite it",
    ]);
  });

  it("finds a waived or opt-in row that a test shows after all", () => {
    const rows = checklist({ "SC-001": { waived: "cannot" }, "SC-002": { optIn: "live" } });
    expect(problemsOf(rows, evidence(["SC-001", "SC-002"]))).toEqual([
      "SC-001 is marked waived, but src/a.test.ts cites it",
      "SC-002 is marked opt-in, but src/a.test.ts cites it",
    ]);
  });

  it("finds citations of rows that do not exist, once per file", () => {
    expect(problemsOf(checklist({ "SC-001": "open" }), evidence(["SC-777", "SC-777"], ["SC-888"]))).toEqual([
      "src/a.test.ts: SC-777 does not exist",
      "bench/parse.ts: SC-888 does not exist",
    ]);
  });

  it("finds malformed citations", () => {
    const malformed = [{ text: "[SC-001..3]", file: "src/a.test.ts" }];
    const found = problemsOf(checklist({}), { ...evidence([]), tests: { citations: [], malformed } });
    expect(found).toEqual(["src/a.test.ts: [SC-001..3] is no citation; write [SC-001] or [SC-001, SC-002]"]);
  });
});

describe("marked", () => {
  it("sets marks from citations, takes them back without, and leaves decisions alone", () => {
    const before = checklist({
      "SC-001": "open",
      "SC-002": "shown",
      "SC-003": "open",
      "SC-004": { bench: "bench/gone.ts" },
      "SC-005": { waived: "cannot" },
      "SC-006": { optIn: "live" },
      "SC-007": "open",
    });
    const after = marked(before, evidence(["SC-001", "SC-003", "SC-005"], ["SC-003", "SC-007"]));
    expect(rowsOf(after).map(({ id, status }) => [id, status])).toEqual([
      ["SC-001", "shown"],
      ["SC-002", "open"],
      ["SC-003", "shown"],
      ["SC-004", "open"],
      ["SC-005", { waived: "cannot" }],
      ["SC-006", { optIn: "live" }],
      ["SC-007", { bench: "bench/parse.ts" }],
    ]);
  });

  it("leaves nothing for a second round and no untrue mark", () => {
    const seen = evidence(["SC-001"], ["SC-002"]);
    const after = marked(checklist({ "SC-001": "open", "SC-002": "open", "SC-003": "shown" }), seen);
    expect(unmarked(after, seen)).toEqual([]);
    expect(problemsOf(after, seen)).toEqual([]);
    expect(marked(after, seen)).toEqual(after);
  });
});

describe("unmarked", () => {
  it("tells which cited rows still say open", () => {
    const rows = checklist({ "SC-001": "open", "SC-002": "open", "SC-003": "shown" });
    expect(unmarked(rows, evidence(["SC-001", "SC-003"])).map(({ id }) => id)).toEqual(["SC-001"]);
  });
});
