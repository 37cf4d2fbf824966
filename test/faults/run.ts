// Brings about every fault of the table with real processes, signals, files and databases, and prints which promises held.
// Exits with 1 if one did not, or was not tried.
//   npm run -s faults [-- --class R]
import { spawn } from "node:child_process";
import { once } from "node:events";
import { mkdtempSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { parseArgs } from "node:util";
import { z } from "zod";

import { type Fault, faults } from "./faults.ts";

const report = z.object({
  testResults: z.array(
    z.object({
      name: z.string(),
      message: z.string().optional(),
      assertionResults: z.array(z.object({ fullName: z.string(), status: z.string() })),
    }),
  ),
});
type Suites = z.output<typeof report>["testResults"];

const { values } = parseArgs({ options: { class: { type: "string", default: "" } } });
const chosen = faults.filter(({ id }) => id.startsWith(values.class));
const suites = await runSuites([...new Set(chosen.map(({ suite }) => suite))]);

console.log(rowOf("fault", "", "promise", "outcome"));
let violations = 0;
for (const each of chosen) {
  const { outcome, failed } = outcomeOf(each, suites);
  if (outcome !== "held") violations++;
  console.log(rowOf(each.id, each.fault, each.promise, outcome));
  for (const title of failed) console.log(`     ${title}`);
}
console.log(`\n${chosen.length} faults, ${violations} violations`);
// A run without faults shows nothing.
process.exitCode = violations === 0 && chosen.length > 0 ? 0 : 1;

/** Runs the tests of these suites, whatever comes of them. */
async function runSuites(names: readonly string[]): Promise<Suites> {
  const folder = mkdtempSync(join(tmpdir(), "headgate-faults-"));
  const file = join(folder, "report.json");
  try {
    const paths = names.map(pathOf);
    const args = ["run", "--project", "e2e", "--project", "unit", "--reporter=json", `--outputFile=${file}`, ...paths];
    const child = spawn("vitest", args, { stdio: ["ignore", "ignore", "inherit"] });
    await once(child, "exit");
    return report.parse(JSON.parse(readFileSync(file, "utf8"))).testResults;
  } finally {
    rmSync(folder, { recursive: true, force: true });
  }
}

/** A fault whose tests were skipped or not found was not tried, which is no better than a violation. */
function outcomeOf({ suite, test }: Fault, all: Suites) {
  const own = all.find(({ name }) => name.endsWith(`/${pathOf(suite)}`))?.assertionResults ?? [];
  const tried = own.filter(({ fullName, status }) => fullName.includes(test) && status !== "skipped");
  const failed = tried.filter(({ status }) => status !== "passed").map(({ fullName }) => fullName);
  const outcome = tried.length === 0 ? "not tried" : failed.length > 0 ? "violated" : "held";
  return { outcome, failed } as const;
}

function pathOf(suite: string): string {
  return `${suite.startsWith("src/") ? suite : `test/e2e/${suite}`}.test.ts`;
}

function rowOf(...[id = "", fault = "", promise = "", outcome = ""]: readonly string[]): string {
  return `${id.padEnd(5)}${fault.padEnd(76)} ${promise.padEnd(50)} ${outcome}`;
}
