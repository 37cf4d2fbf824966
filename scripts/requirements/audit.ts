import { rowsOf, statusName, type Checklist, type Row, type Status } from "./checklist.ts";
import type { Citation, Findings } from "./citations.ts";
import type { RowReach } from "./reachability.ts";

/** What tests and benchmarks say about the requirements. */
export interface Evidence {
  readonly tests: Findings;
  readonly benches: Findings;
}

/** Every mark that is untrue and every citation that leads nowhere, in words; empty when all is well. */
export function problemsOf(checklists: readonly Checklist[], evidence: Evidence): string[] {
  const rows = rowsOf(checklists);
  const known = new Set(rows.map(({ id }) => id));
  const all = [evidence.tests, evidence.benches];
  const malformed = all.flatMap((findings) => findings.malformed);
  const strangers = all.flatMap((findings) => findings.citations).filter(({ id }) => !known.has(id));
  return [
    ...malformed.map(({ text, file }) => `${file}: ${text} is no citation; write [SC-001] or [SC-001, SC-002]`),
    ...strangers.map(({ id, file }) => `${file}: ${id} does not exist`),
    ...rows.flatMap((row) => problemsOfRow(row, evidence)),
  ].filter(isFirst);
}

/** Rows whose tests exercise code that users cannot reach, in words; empty when all is well. */
export function reachProblems(checklists: readonly Checklist[], reach: ReadonlyMap<string, RowReach>): string[] {
  return rowsOf(checklists).flatMap(({ id, library, status }) => {
    if (status === "shown" && !reach.has(id)) {
      return [
        `${id}: cannot tell which test cites it; write the id at the beginning of a title, or of a row of \`it.each\``,
      ];
    }
    const { unreachable = [], libraryOnly = [], ownMembers = [] } = reach.get(id) ?? {};
    if (library !== undefined && libraryOnly.length === 0 && reach.has(id)) {
      return [`${id} is marked as a promise of ${library} alone, but its tests use nothing that only it exports`];
    }
    return [
      ...unreachable.map((code) => `${id}: no entry point reaches ${code}, which its tests exercise`),
      ...ownMembers.map((member) => `${id}: only tests use ${member}; show the row by what users reach`),
      // Also where another test shows the row by what users reach: it may show another part of it.
      ...(library === undefined
        ? libraryOnly.map((code) => `${id}: only headgate/protocol exports ${code}; call it, or mark the row "library"`)
        : []),
    ];
  });
}

/** The checklists with each mark set as the citations say; waived and opt-in rows are people's decisions and stay. */
export function marked(checklists: readonly Checklist[], evidence: Evidence): Checklist[] {
  return checklists.map((checklist) => ({
    ...checklist,
    sections: checklist.sections.map((section) => ({
      ...section,
      rows: section.rows.map((row) => ({ ...row, status: markOf(row, evidence) })),
    })),
  }));
}

/** Rows that are cited by a test or benchmark and still say open. */
export function unmarked(checklists: readonly Checklist[], evidence: Evidence): Row[] {
  return rowsOf(checklists).filter((row) => row.status === "open" && markOf(row, evidence) !== "open");
}

/** The files that cite a row, each once. */
export function citersOf(id: string, citations: readonly Citation[]): string[] {
  return citations
    .filter((citation) => citation.id === id)
    .map(({ file }) => file)
    .filter(isFirst);
}

function markOf(row: Row, { tests, benches }: Evidence): Status {
  const name = statusName(row.status);
  if (name === "waived" || name === "opt-in") return row.status;
  if (citersOf(row.id, tests.citations).length > 0) return "shown";
  const [bench] = citersOf(row.id, benches.citations);
  return bench === undefined ? "open" : { bench };
}

function problemsOfRow({ id, status }: Row, { tests, benches }: Evidence): string[] {
  const citers = citersOf(id, tests.citations);
  if (status === "open") return [];
  if (status === "shown") return citers.length > 0 ? [] : [`${id} is marked shown, but no passing test cites it`];
  if ("bench" in status) {
    const cited = citersOf(id, benches.citations).includes(status.bench);
    return cited ? [] : [`${id} is marked as shown by ${status.bench}, which does not cite it`];
  }
  const [citer] = citers;
  return citer === undefined ? [] : [`${id} is marked ${statusName(status)}, but ${citer} cites it`];
}

function isFirst(text: string, index: number, all: readonly string[]): boolean {
  return all.indexOf(text) === index;
}
