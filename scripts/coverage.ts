// Says how much of the kits their tests reach, and fails below their bounds: npm run coverage.
import { resolve } from "node:path";

import { runTool } from "./run/tool.ts";

/** A folder, the tests that are its own, and the least share of its lines that they must reach. */
const measured = [
  { folder: "src/agent-kit", tests: ["src/agent-kit", "test/e2e/agent-kit"], lines: 90 },
  { folder: "src/server-kit", tests: ["src/server-kit"], lines: 80 },
] as const;

const root = resolve(import.meta.dirname, "..");
let failed = 0;
for (const { folder, tests, lines } of measured) {
  const { exitCode, output } = await runTool(
    [
      "vitest",
      "run",
      ...tests,
      "--coverage",
      "--coverage.provider=v8",
      `--coverage.include=${folder}/**`,
      "--coverage.reporter=text-summary",
      `--coverage.reportsDirectory=.reports/coverage/${folder}`,
      `--coverage.thresholds.lines=${lines}`,
    ],
    { cwd: root, timeoutMs: 300_000 },
  );
  const share = /Lines\s*:\s*([\d.]+)%/u.exec(output)?.[1] ?? "unknown";
  console.log(`${exitCode === 0 ? "ok  " : "FAIL"} ${folder}: ${share} % of its lines, at least ${lines}`);
  if (exitCode !== 0) {
    failed += 1;
    console.log(output.slice(-4000));
  }
}
process.exitCode = failed === 0 ? 0 : 1;
