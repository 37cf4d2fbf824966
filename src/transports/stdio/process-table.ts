import { readFileSync, readdirSync } from "node:fs";
import { setImmediate } from "node:timers/promises";

import { childMarkerVariable } from "./environment.ts";

/** One process as Linux shows it in `/proc/<pid>/stat`. */
export interface ProcessEntry {
  readonly pid: number;
  readonly parent: number;
  readonly group: number;
  readonly session: number;
  /** Clock ticks since boot; together with the pid it names one process for ever. */
  readonly startedAt: number;
  /** It has ended and only waits to be collected by its parent. */
  readonly isZombie: boolean;
}

/** A child, the leader of its own group and session, with everything that it started. */
export interface ProcessTree {
  readonly leader: number;
  /** Value of the family variable in the leader's environment, which its descendants inherit. */
  readonly marker: string;
  /** When the leader started, in the clock ticks of the process table; undefined where there is no such table. */
  readonly startedAt: number | undefined;
}

/** So many files are read before other work gets its turn. */
const processesPerTurn = 32;

/** Reads the text of `/proc/<pid>/stat`; undefined if it is something else. */
export function parseProcess(stat: string): ProcessEntry | undefined {
  // The name in parentheses may itself hold blanks and parentheses.
  const nameEnd = stat.lastIndexOf(")");
  if (nameEnd === -1) return undefined;
  const fields = stat.slice(nameEnd + 2).split(" ");
  const [state, parent, group, session] = fields;
  const entry = {
    pid: Number.parseInt(stat, 10),
    parent: Number(parent),
    group: Number(group),
    session: Number(session),
    startedAt: Number(fields[19]),
    isZombie: state === "Z" || state === "X",
  };
  const { pid, startedAt } = entry;
  return [pid, entry.parent, entry.group, entry.session, startedAt].every(Number.isSafeInteger)
    ? entry
    : undefined;
}

/** One process, or undefined if there is none or no table to look it up in. */
export function readProcess(pid: number): ProcessEntry | undefined {
  try {
    return parseProcess(readFileSync(`/proc/${pid}/stat`, "latin1"));
  } catch {
    // Gone, or not a Linux system.
    return undefined;
  }
}

/** All processes of this machine or container, or undefined where the system has no such table. */
export async function listProcesses(): Promise<readonly ProcessEntry[] | undefined> {
  const names = processFolders();
  if (names === undefined) return undefined;
  const entries: ProcessEntry[] = [];
  for (const [index, name] of names.entries()) {
    if (index % processesPerTurn === processesPerTurn - 1) await setImmediate();
    const entry = readProcess(Number(name));
    if (entry !== undefined) entries.push(entry);
  }
  return entries.length === 0 ? undefined : entries;
}

/**
 * The living members of a family in a table of processes: the leader's group and session, their descendants, and
 * processes that left all of these but carry the family's marker in their environment. What took another session and
 * another environment and lost its parent cannot be told from a stranger and is not found.
 */
export function findTreeMembers(
  family: ProcessTree,
  table: readonly ProcessEntry[],
  isMarked: (pid: number, marker: string) => boolean,
): readonly ProcessEntry[] {
  const { leader, marker, startedAt = 0 } = family;
  // An entry that is older than the family, or a leader that is another one, has got a used number again.
  const reused = table.some((entry) => entry.pid === leader && entry.startedAt !== startedAt);
  const young = table.filter((entry) => entry.startedAt >= startedAt);
  const found = new Set<ProcessEntry>();
  if (!reused) {
    for (const entry of young) {
      if (entry.group === leader || entry.session === leader) found.add(entry);
    }
  }
  addDescendants(found, young);
  for (const entry of young) {
    if (!found.has(entry) && !entry.isZombie && isMarked(entry.pid, marker)) found.add(entry);
  }
  addDescendants(found, young);
  return [...found].filter((entry) => !entry.isZombie);
}

/** Whether a process was started with the marker in its environment; false for what may not be looked at. */
export function carriesMarker(pid: number, marker: string): boolean {
  try {
    return readFileSync(`/proc/${pid}/environ`).includes(`${childMarkerVariable}=${marker}\0`);
  } catch {
    // Gone, or another user's process and then none of ours.
    return false;
  }
}

function processFolders(): readonly string[] | undefined {
  try {
    return readdirSync("/proc").filter((name) => /^\d+$/u.test(name));
  } catch {
    return undefined;
  }
}

function addDescendants(found: Set<ProcessEntry>, table: readonly ProcessEntry[]): void {
  const pids = new Set([...found].map((entry) => entry.pid));
  let before = -1;
  while (before !== pids.size) {
    before = pids.size;
    for (const entry of table) {
      if (!pids.has(entry.parent) || pids.has(entry.pid)) continue;
      pids.add(entry.pid);
      found.add(entry);
    }
  }
}
