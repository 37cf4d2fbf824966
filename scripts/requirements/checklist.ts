import { readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";

/**
 * How a requirement stands: shown by a test that CI runs, shown by a benchmark, waived for a reason, left to a
 * suite that only runs where a certain product is at hand, or open.
 */
export type Status =
  | "open"
  | "shown"
  | { readonly bench: string }
  | { readonly waived: string }
  | { readonly optIn: string };

/** The words under which statuses are counted and listed. */
export const statusNames = ["shown", "bench", "waived", "opt-in", "open"] as const;
export type StatusName = (typeof statusNames)[number];

/** One requirement. */
export interface Row {
  readonly id: string;
  readonly text: string;
  /** What belongs to the requirement besides its one line. */
  readonly detail?: string;
  /** U unit test, I fake peers, T deliverable. */
  readonly kind?: string;
  /** M must, S should, C could. */
  readonly level?: string;
  /** The entry point whose promise this row is alone, where no product needs the code behind it. */
  readonly library?: string;
  readonly status: Status;
}

/** One file of requirements/. */
export interface Checklist {
  /** The prefix of its ids. */
  readonly checklist: string;
  readonly title: string;
  /** Terms its rows use. */
  readonly words?: Readonly<Record<string, string>>;
  readonly sections: readonly { readonly title: string; readonly rows: readonly Row[] }[];
}

/** The checklist files in the order they are reported. */
export const checklistFiles = ["pa.json", "px.json", "sc.json", "ko.json", "ip.json"] as const;

/** Reads every checklist in `folder`; throws with file and id when one is not in form. */
export function readChecklists(folder: string): Checklist[] {
  return checklistFiles.map((file) => parseChecklist(file, JSON.parse(readFileSync(join(folder, file), "utf8"))));
}

/** Writes the checklists back as readChecklists found them. */
export function writeChecklists(folder: string, checklists: readonly Checklist[]): void {
  checklists.forEach((checklist) => {
    const file = join(folder, `${checklist.checklist.toLowerCase()}.json`);
    writeFileSync(file, `${JSON.stringify(checklist, undefined, 2)}\n`);
  });
}

/** All rows of some checklists in order. */
export function rowsOf(checklists: readonly Checklist[]): Row[] {
  return checklists.flatMap(({ sections }) => sections.flatMap(({ rows }) => rows));
}

/** The word under which a status is counted. */
export function statusName(status: Status): StatusName {
  if (typeof status === "string") return status;
  if ("bench" in status) return "bench";
  return "waived" in status ? "waived" : "opt-in";
}

/** Turns parsed JSON into a Checklist, or throws with what is wrong and where. */
export function parseChecklist(file: string, value: unknown): Checklist {
  if (!isRecord(value)) throw new Error(`${file}: not an object`);
  const { checklist, title, words, sections } = value;
  if (typeof checklist !== "string" || `${checklist.toLowerCase()}.json` !== file) {
    throw new Error(`${file}: "checklist" must be the prefix the file is named after`);
  }
  if (typeof title !== "string") throw new Error(`${file}: no title`);
  if (words !== undefined && !isTextRecord(words)) throw new Error(`${file}: "words" maps terms to texts`);
  if (!Array.isArray(sections)) throw new Error(`${file}: no sections`);
  const seen = new Set<string>();
  const parsed = sections.map((section: unknown) => {
    if (!isRecord(section) || typeof section["title"] !== "string" || !Array.isArray(section["rows"])) {
      throw new Error(`${file}: a section has a title and rows`);
    }
    const rows = section["rows"].map((row: unknown) => parseRow(file, checklist, row));
    return { title: section["title"], rows };
  });
  for (const { id } of parsed.flatMap(({ rows }) => rows)) {
    if (seen.has(id)) throw new Error(`${file}: ${id} stands twice`);
    seen.add(id);
  }
  return { checklist, title, ...(words === undefined ? {} : { words }), sections: parsed };
}

function parseRow(file: string, prefix: string, value: unknown): Row {
  if (!isRecord(value)) throw new Error(`${file}: a row is an object`);
  const { status, ...texts } = value;
  if (!isTextRecord(texts)) throw new Error(`${file}: all of a row but its status is text`);
  const { id, text, detail, kind, level, library, ...rest } = texts;
  if (id === undefined || !id.startsWith(`${prefix}-`)) throw new Error(`${file}: a row without an id`);
  if (text === undefined || text === "") throw new Error(`${file}: ${id} has no text`);
  const [stranger] = Object.keys(rest);
  if (stranger !== undefined) throw new Error(`${file}: ${id} has an unknown member "${stranger}"`);
  return {
    id,
    text,
    ...(detail === undefined ? {} : { detail }),
    ...(kind === undefined ? {} : { kind }),
    ...(level === undefined ? {} : { level }),
    ...(library === undefined ? {} : { library }),
    status: parseStatus(file, id, status),
  };
}

function parseStatus(file: string, id: string, value: unknown): Status {
  if (value === "open" || value === "shown") return value;
  if (isTextRecord(value) && Object.keys(value).length === 1) {
    const { bench, waived, optIn } = value;
    if (bench) return { bench };
    if (waived) return { waived };
    if (optIn) return { optIn };
  }
  const forms = `"open", "shown", { "bench": file }, { "waived": reason } or { "optIn": suite and reason }`;
  throw new Error(`${file}: the status of ${id} must be ${forms}`);
}

function isRecord(value: unknown): value is Record<string, unknown> {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}

function isTextRecord(value: unknown): value is Record<string, string> {
  return isRecord(value) && Object.values(value).every((text) => typeof text === "string");
}
