// Runs every check of this repository in order; with --quick only those that fit into a minute.
// The last line is always "N passed, N failed".
import { existsSync, readFileSync, rmSync } from "node:fs";
import { join, resolve } from "node:path";

import { failuresOf } from "./run/failures.ts";
import { sumOf, tallyOfReport, tallyOfStep, type Tally } from "./run/tally.ts";
import { runTool } from "./run/tool.ts";

interface Step {
  readonly name: string;
  /** A command, or the name of a vitest project. */
  readonly run: readonly [string, ...string[]] | { readonly suite: string };
  /** The vitest report that a command leaves where it could run tests; then it counts as these. */
  readonly report?: string;
  /** Whether --quick runs it too. */
  readonly quick?: true;
}

const steps: readonly Step[] = [
  { name: "format", run: ["oxfmt", "--check"], quick: true },
  { name: "lint", run: ["oxlint"], quick: true },
  { name: "types", run: ["tsc", "-p", "tsconfig.json"], quick: true },
  { name: "console types", run: ["tsc", "-p", "console"], quick: true },
  { name: "dead code", run: ["knip"], quick: true },
  { name: "unit tests", run: { suite: "unit" }, quick: true },
  { name: "coverage", run: ["node", "scripts/coverage.ts"] },
  { name: "generated files", run: ["node", "scripts/generate.ts", "--check"] },
  { name: "build and pack", run: ["node", "scripts/pack-smoke.ts"] },
  { name: "fuzz", run: ["node", "scripts/fuzz.ts", "--seconds", "5"] },
  { name: "system parts", run: ["node", "scripts/system-parts.ts"] },
  { name: "end-to-end tests", run: { suite: "e2e" } },
  { name: "conformance", run: ["node", "test/conformance/run.ts"] },
  { name: "real Claude CLI", run: ["node", "test/claude/run.ts"], report: "claude" },
  { name: "requirements", run: ["node", "scripts/requirements.ts", "--verify", "--reports", ".reports"] },
];

const root = resolve(import.meta.dirname, "..");
const reports = join(root, ".reports");
/** For steps that hang; on a busy machine one takes several times as long as on a quiet one. */
const stepLimitMs = 75 * 60 * 1000;

// A report of an earlier run must not speak for this one.
rmSync(reports, { recursive: true, force: true });

const quick = process.argv.includes("--quick");
const tallies: Tally[] = [];
for (const step of quick ? steps.filter((candidate) => candidate.quick) : steps) {
  // One after the other: they share two cores, and each prints its own time.
  tallies.push(await runStep(step));
}
const { passed, failed } = sumOf(tallies);
process.exitCode = failed === 0 ? 0 : 1;
console.log(`${passed} passed, ${failed} failed`);

async function runStep({ name, run, report: left }: Step): Promise<Tally> {
  const started = performance.now();
  const { exitCode, output } = await runTool("suite" in run ? vitest(run.suite) : run, {
    cwd: root,
    timeoutMs: stepLimitMs,
  });
  const report = "suite" in run ? reportFile(run.suite) : existingReport(left);
  const results = report === undefined ? undefined : readReport(report);
  const tally = report === undefined ? tallyOfStep(exitCode) : tallyOfReport(exitCode, results);
  const seconds = ((performance.now() - started) / 1000).toFixed(1).padStart(6);
  const verdict = tally.failed === 0 ? "ok  " : "FAIL";
  console.log(`${verdict} ${name.padEnd(18)}${seconds} s${report === undefined ? "" : `  ${inWords(tally)}`}`);
  if (tally.failed > 0) {
    // The failures alone where the report has them: the whole output of a long suite hides them.
    const failures = failuresOf(results, root);
    console.log(indented(failures.length > 0 ? failures.join("\n") : output));
  }
  // What a step could not do is said even where it did not fail.
  else for (const [notice] of output.matchAll(/^NOTICE .*$/gmu)) console.log(indented(notice));
  return tally;
}

function vitest(suite: string): readonly [string, ...string[]] {
  return [
    "vitest",
    "run",
    "--project",
    suite,
    "--reporter=default",
    "--reporter=json",
    `--outputFile.json=${reportFile(suite)}`,
  ];
}

function reportFile(suite: string): string {
  return join(reports, `${suite}.json`);
}

function existingReport(suite: string | undefined): string | undefined {
  return suite !== undefined && existsSync(reportFile(suite)) ? reportFile(suite) : undefined;
}

function readReport(file: string): unknown {
  return existsSync(file) ? JSON.parse(readFileSync(file, "utf8")) : undefined;
}

function inWords({ passed: ok, failed: bad, skipped }: Tally): string {
  return [`${ok} passed`, ...(bad > 0 ? [`${bad} failed`] : []), ...(skipped > 0 ? [`${skipped} skipped`] : [])].join(
    ", ",
  );
}

function indented(output: string): string {
  return output.replaceAll(/^/gmu, "     ");
}
