import { describe, expect, it } from "vitest";

import { sumOf, tallyOfReport, tallyOfStep } from "./tally.ts";

const clean = { numPassedTests: 7, numFailedTests: 0, numPendingTests: 2, numTodoTests: 1, testResults: [] };

describe("tallyOfStep", () => {
  it("counts a step as one check", () => {
    expect(tallyOfStep(0)).toEqual({ passed: 1, failed: 0, skipped: 0 });
    expect(tallyOfStep(3)).toEqual({ passed: 0, failed: 1, skipped: 0 });
  });
});

describe("tallyOfReport", () => {
  it("counts tests, and skipped ones apart", () => {
    expect(tallyOfReport(0, clean)).toEqual({ passed: 7, failed: 0, skipped: 3 });
  });

  it("counts a file that did not load as one failure", () => {
    const testResults = [
      { status: "failed", assertionResults: [] },
      { status: "failed", assertionResults: [{ status: "failed" }] },
      { status: "passed", assertionResults: [] },
    ];
    expect(tallyOfReport(1, { ...clean, numFailedTests: 1, testResults }).failed).toBe(2);
  });

  it("never calls a run clean that ended badly", () => {
    expect(tallyOfReport(1, clean).failed).toBe(1);
    expect(tallyOfReport(1, undefined)).toEqual({ passed: 0, failed: 1, skipped: 0 });
  });
});

describe("sumOf", () => {
  it("adds up", () => {
    expect(sumOf([tallyOfStep(0), tallyOfStep(1), tallyOfReport(0, clean)])).toEqual({
      passed: 8,
      failed: 1,
      skipped: 3,
    });
  });
});
