/** How many checks of a step passed, failed and were left out. */
export interface Tally {
  readonly passed: number;
  readonly failed: number;
  readonly skipped: number;
}

/** A step without tests of its own counts as one check. */
export function tallyOfStep(exitCode: number): Tally {
  return exitCode === 0 ? { passed: 1, failed: 0, skipped: 0 } : { passed: 0, failed: 1, skipped: 0 };
}

/**
 * Counts the tests of a vitest JSON report. A test file that could not be loaded counts as one failure, and a run
 * that ended badly never counts as free of failures, whatever its report says or if it left none (undefined).
 */
export function tallyOfReport(exitCode: number, report: unknown): Tally {
  const passed = countOf(report, "numPassedTests");
  const failedTests = countOf(report, "numFailedTests");
  const skipped = countOf(report, "numPendingTests") + countOf(report, "numTodoTests");
  const failed = failedTests + filesThatDidNotLoad(report);
  return { passed, failed: exitCode === 0 ? failed : Math.max(1, failed), skipped };
}

/** Adds up tallies. */
export function sumOf(tallies: readonly Tally[]): Tally {
  return tallies.reduce(
    (sum, tally) => ({
      passed: sum.passed + tally.passed,
      failed: sum.failed + tally.failed,
      skipped: sum.skipped + tally.skipped,
    }),
    { passed: 0, failed: 0, skipped: 0 },
  );
}

function filesThatDidNotLoad(report: unknown): number {
  const files = memberOf(report, "testResults");
  if (!Array.isArray(files)) return 0;
  return files.filter((file: unknown) => {
    const tests = memberOf(file, "assertionResults");
    return memberOf(file, "status") === "failed" && Array.isArray(tests) && tests.length === 0;
  }).length;
}

function countOf(report: unknown, name: string): number {
  const count = memberOf(report, name);
  return typeof count === "number" ? count : 0;
}

function memberOf(value: unknown, name: string): unknown {
  return typeof value === "object" && value !== null ? Reflect.get(value, name) : undefined;
}
