import type { Lane, Way } from "./lanes.ts";
import type { Outcome, Status } from "./suite.ts";
import type { Finding, Verdict } from "./verdict.ts";

/** What came of one lane on one way. */
export interface Result {
  readonly way: Way;
  readonly lane: Lane;
  readonly seconds: number;
  readonly end:
    | { readonly ran: true; readonly outcome: Outcome; readonly verdict: Verdict }
    | { readonly ran: false; readonly error: Error };
}

/** How many checks of a result passed, and how much in it makes the whole run fail. */
export function countsOf({ end }: Result): { readonly passed: number; readonly failed: number } {
  if (!end.ran) return { passed: 0, failed: 1 };
  const { unexpected, stale } = end.verdict;
  return { passed: countOf(end.outcome, "SUCCESS"), failed: unexpected.length + stale.length };
}

const columns = [7, 24, 10, 8, 8, 8, 11, 12] as const;

/** The first line of the table. */
export function heading(): string {
  return row(["way", "lane", "scenarios", "passed", "skipped", "failed", "expected", "unexpected", "time"]);
}

/** The line of one result. */
export function rowOf({ way, lane, seconds, end }: Result): string {
  const time = `${seconds.toFixed(1)} s`;
  if (!end.ran) return row([way, lane.name, "did not run", "", "", "", "", "", time]);
  const { outcome, verdict } = end;
  return row([
    way,
    lane.name,
    String(outcome.size),
    String(countOf(outcome, "SUCCESS")),
    String(countOf(outcome, "SKIPPED")),
    String(countOf(outcome, "FAILURE") + countOf(outcome, "WARNING")),
    String(verdict.expected.length),
    String(verdict.unexpected.length + verdict.stale.length),
    time,
  ]);
}

/** Everything about a result that makes the run fail, one line each. */
export function complaintsOf({ way, lane, end }: Result): string[] {
  const where = `${way} ${lane.name}`;
  if (!end.ran) return [`${where}: ${end.error.message}`];
  return [
    ...end.verdict.unexpected.map((finding) => `${where}: ${sentence(finding)}`),
    ...end.verdict.stale.map((entry) => `${where}: "${entry}" is expected to fail and does not; take it out`),
  ];
}

function sentence({ scenario, checkId, reason }: Finding): string {
  return `${scenario}:${checkId} ${reason.replaceAll(/\s+/gu, " ")}`;
}

function countOf(outcome: Outcome, status: Status): number {
  return [...outcome.values()].flat().filter((check) => check.status === status).length;
}

function row(cells: readonly string[]): string {
  return cells.map((cell, at) => (at < 2 ? cell.padEnd(columns[at] ?? 0) : cell.padStart(columns[at] ?? 8))).join(" ");
}
