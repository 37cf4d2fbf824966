// Prints how the requirements stand, lists them, marks them from the tests' citations, and checks the marks.
import { resolve } from "node:path";
import { parseArgs } from "node:util";

import { citersOf, marked, problemsOf, reachProblems, unmarked, type Evidence } from "./requirements/audit.ts";
import {
  readChecklists,
  rowsOf,
  statusName,
  statusNames,
  writeChecklists,
  type Checklist,
  type Row,
} from "./requirements/checklist.ts";
import { benchCitations, reportCitations, testCitations } from "./requirements/citations.ts";
import { citingFiles, createModuleGraph, reachOfRows, type RowReach } from "./requirements/reachability.ts";

const root = resolve(import.meta.dirname, "..");
const folder = resolve(root, "requirements");

const usage = `usage: npm run -s requirements -- [options]
  (none)                    how many rows are shown, waived, opt-in or open, per checklist
  --list [STATUS] [PREFIX]  the rows, with the entry points that reach their code; STATUS is one of ${statusNames.join(", ")}; PREFIX such as SC
  --mark                    set every mark as the citations in test titles say
  --verify                  exit 1 when a mark is untrue, a cited id does not exist, or users cannot reach the code
                            that the tests of a row exercise
  --reports FOLDER          with --verify: believe the vitest reports of a run instead of the sources`;

process.exitCode = run();

function run(): number {
  const { values, positionals } = parseArgs({
    options: {
      list: { type: "boolean", default: false },
      mark: { type: "boolean", default: false },
      verify: { type: "boolean", default: false },
      reports: { type: "string" },
      help: { type: "boolean", default: false },
    },
    allowPositionals: true,
  });
  if (values.help) {
    console.log(usage);
    return 0;
  }
  const sources: Evidence = { tests: testCitations(root), benches: benchCitations(root) };
  if (values.mark) writeChecklists(folder, marked(readChecklists(folder), sources));
  const checklists = readChecklists(folder);
  const reach = values.list || values.verify ? readReach() : new Map<string, RowReach>();
  if (values.list && !list(checklists, sources, reach, positionals)) {
    console.error(usage);
    return 2;
  }
  if (!values.list) printCounts(checklists);

  const problems = values.verify
    ? [...verify(checklists, sources, values.reports), ...reachProblems(checklists, reach)]
    : [];
  for (const problem of problems) console.log(`untrue: ${problem}`);
  const waiting = unmarked(checklists, sources).length;
  if (waiting > 0) console.log(`${waiting} rows are cited but not marked yet: npm run -s requirements -- --mark`);

  const rows = rowsOf(checklists);
  console.log(`${rows.filter(isShown).length} of ${rows.length} requirements shown`);
  return problems.length > 0 ? 1 : 0;
}

function readReach(): ReadonlyMap<string, RowReach> {
  const graph = createModuleGraph(root);
  return reachOfRows(graph, graph.citingTests(citingFiles(root)));
}

/** Untrue marks by the sources and, given reports, by what really ran and passed. */
function verify(checklists: readonly Checklist[], sources: Evidence, reports: string | undefined): string[] {
  const problems = problemsOf(checklists, sources);
  if (reports === undefined) return problems;
  const ran: Evidence = { ...sources, tests: reportCitations(root, resolve(root, reports)) };
  return [...new Set([...problems, ...problemsOf(checklists, ran)])];
}

function isShown({ status }: Row): boolean {
  return ["shown", "bench"].includes(statusName(status));
}

function printCounts(checklists: readonly Checklist[]): void {
  console.log(line(["", "rows", ...statusNames]));
  for (const checklist of checklists) {
    const rows = rowsOf([checklist]);
    const counts = statusNames.map((name) => rows.filter(({ status }) => statusName(status) === name).length);
    console.log(`${line([checklist.checklist, rows.length, ...counts])}  ${checklist.title}`);
  }
}

function line(cells: readonly (string | number)[]): string {
  return cells.map((cell, index) => (index === 0 ? String(cell).padEnd(6) : String(cell).padStart(8))).join("");
}

/** Prints the rows that fit; false when a word is neither a status nor a prefix. */
function list(
  checklists: readonly Checklist[],
  evidence: Evidence,
  reach: ReadonlyMap<string, RowReach>,
  words: readonly string[],
): boolean {
  const statuses = statusNames.filter((name) => words.includes(name));
  const prefixes = checklists.map(({ checklist }) => checklist).filter((prefix) => words.includes(prefix));
  if (statuses.length + prefixes.length !== words.length) return false;
  for (const row of rowsOf(checklists)) {
    const name = statusName(row.status);
    if (statuses.length > 0 && !statuses.includes(name)) continue;
    if (prefixes.length > 0 && !prefixes.some((prefix) => row.id.startsWith(`${prefix}-`))) continue;
    const reason = typeof row.status === "string" ? "" : ` (${Object.values(row.status).join("")})`;
    const citers = citersOf(row.id, [...evidence.tests.citations, ...evidence.benches.citations]);
    const tail = citers.length > 0 ? `\n        ${citers.join(", ")}` : "";
    const from = row.library === undefined ? (reach.get(row.id)?.from ?? []) : [`${row.library} alone`];
    const entries = from.length > 0 ? `\n        reached from ${from.join(", ")}` : "";
    console.log(`${row.id}  ${name}${reason}: ${row.text}${tail}${entries}`);
  }
  return true;
}
