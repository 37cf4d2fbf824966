// Runs the official conformance suite against the everything server, direct and through the gateway: every check that
// passes direct has to pass through the gateway too; and lets its scenarios for clients judge what the gateway sends.
// The last line is always "N passed, N failed".
//   npm run conformance [-- [--lane NAME]… [--way direct|http|stdio|federation|replicas]…]
import { parseArgs } from "node:util";

import { expectedFailuresFor } from "./expected-failures.ts";
import { lanes, usualWays, ways, type Lane, type Way } from "./lanes.ts";
import { complaintsOf, countsOf, heading, rowOf, type Result } from "./report.ts";
import { runClientScenarios, runSuite, type SuiteRun } from "./suite.ts";
import { startTarget } from "./target.ts";
import { failuresIn, judge, regressionsBetween, type Finding } from "./verdict.ts";

// Two would share the cores so thinly that scenarios with a time limit of their own fail now and then.
const lanesAtOnce = 1;

const { values } = parseArgs({
  options: {
    lane: { type: "string", multiple: true, default: lanes.map(({ name }) => name) },
    way: { type: "string", multiple: true, default: [...ways] },
  },
});
const waiting = values.lane.map((name) => lanes.find((lane) => lane.name === name) ?? unknown("lane", name));
const chosenWays = values.way.map((name) => ways.find((way) => way === name) ?? unknown("way", name));

console.log(heading());
const results: Result[] = [];
await Promise.all(Array.from({ length: lanesAtOnce }, runWaiting));
for (const complaint of results.flatMap(complaintsOf)) console.log(complaint);
const counts = results.map(countsOf);
const failed = counts.reduce((sum, count) => sum + count.failed, 0);
process.exitCode = failed === 0 ? 0 : 1;
console.log(`${counts.reduce((sum, count) => sum + count.passed, 0)} passed, ${failed} failed`);

async function runWaiting(): Promise<void> {
  for (let lane = waiting.shift(); lane !== undefined; lane = waiting.shift()) await runLane(lane);
}

/** The direct run is always made, because the others are compared with it. */
async function runLane(lane: Lane): Promise<void> {
  const direct = await timed(async () => suiteOn("direct", lane));
  if (direct.value instanceof Error || chosenWays.includes("direct")) {
    record("direct", lane, direct, ({ outcome, accepted }) => [
      ...failuresIn(outcome),
      ...(lane.scored && !accepted ? [{ scenario: "(suite)", checkId: "exit", reason: "is not content" }] : []),
    ]);
  }
  if (direct.value instanceof Error) return;
  const { outcome } = direct.value;
  const laneWays = lane.ways ?? usualWays;
  for (const way of chosenWays.filter((candidate) => candidate !== "direct" && laneWays.includes(candidate))) {
    const through = await timed(async () => suiteOn(way, lane));
    record(way, lane, through, (run) => regressionsBetween(outcome, run.outcome));
  }
}

async function suiteOn(way: Way, lane: Lane): Promise<SuiteRun> {
  if (lane.clientScenarios !== undefined)
    return runClientScenarios(lane.clientScenarios, lane.selection, way !== "direct");
  await using target = await startTarget(way, lane);
  return await runSuite(target.url, lane.selection);
}

interface Timed<T> {
  readonly value: T | Error;
  readonly seconds: number;
}

async function timed<T>(work: () => Promise<T>): Promise<Timed<T>> {
  const started = performance.now();
  const value = await work().catch((error: unknown) => (error instanceof Error ? error : new Error(String(error))));
  return { value, seconds: (performance.now() - started) / 1000 };
}

function record(
  way: Way,
  lane: Lane,
  { value, seconds }: Timed<SuiteRun>,
  findingsIn: (run: SuiteRun) => readonly Finding[],
): void {
  const end: Result["end"] =
    value instanceof Error
      ? { ran: false, error: value }
      : {
          ran: true,
          outcome: value.outcome,
          verdict: judge(findingsIn(value), expectedFailuresFor(way, lane)),
        };
  const result: Result = { way, lane, seconds, end };
  results.push(result);
  console.log(rowOf(result));
}

function unknown(what: string, name: string): never {
  throw new RangeError(`there is no ${what} ${name}`);
}
