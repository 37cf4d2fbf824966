import { spawn } from "node:child_process";
import { readdirSync, readFileSync } from "node:fs";
import { setImmediate } from "node:timers/promises";

import type { SetTimer } from "../../core/exchange.ts";
import { delay } from "../../lib/timeout.ts";
import { childMarkerVariable } from "./environment.ts";

/** How patiently a family is ended. */
export interface KillOptions {
  /** Between SIGTERM and SIGKILL. */
  readonly graceMs: number;
  readonly setTimer: SetTimer;
}

/** Killed processes leave within milliseconds; one that waits for a broken disk must not hold us up for ever. */
const killTimeoutMs = 1000;
const killRounds = 3;

/** The family of a process that was just started as the leader of its own group. */
export function processTreeOf(leader: number, marker: string): ProcessTree {
  return { leader, marker, startedAt: readProcess(leader)?.startedAt };
}

/**
 * Ends every living member of a family: SIGTERM, and SIGKILL for what is still there after the grace. Where there is
 * no process table only the group is reached, so a process that made itself a group of its own escapes. Never rejects.
 */
export async function killProcessTree(family: ProcessTree, options: KillOptions): Promise<void> {
  if (process.platform === "win32") {
    await killWindowsTree(family.leader);
    return;
  }
  const { graceMs, setTimer } = options;
  const members = await findMembers(family);
  if (members.isEmpty()) return;
  members.signal("SIGTERM");
  await waitUntilGone(members, graceMs, setTimer);
  // More than once, because a process can have forked between the look and the signal.
  for (let round = 0; round < killRounds; round += 1) {
    const left = await findMembers(family);
    if (left.isEmpty()) return;
    left.signal("SIGKILL");
    await waitUntilGone(left, killTimeoutMs, setTimer);
  }
}

/** The members found at one moment. */
interface TreeMembers {
  signal(name: NodeJS.Signals): void;
  /** Asks again, for those that were found. */
  isEmpty(): boolean;
}

async function findMembers(family: ProcessTree): Promise<TreeMembers> {
  const table = family.startedAt === undefined ? undefined : await listProcesses();
  if (table === undefined) {
    return {
      signal: (name) => sendSignal(-family.leader, name),
      isEmpty: () => !sendSignal(-family.leader, 0),
    };
  }
  let living = findTreeMembers(family, table, carriesMarker);
  return {
    signal(name) {
      // The group in one call, so that none of it sees another die first and starts it anew.
      if (living.some((entry) => entry.group === family.leader)) sendSignal(-family.leader, name);
      for (const entry of living) if (entry.group !== family.leader) sendSignal(entry.pid, name);
    },
    isEmpty() {
      living = living.filter(isAlive);
      return living.length === 0;
    },
  };
}

function isAlive(entry: ProcessEntry): boolean {
  const now = readProcess(entry.pid);
  return now !== undefined && now.startedAt === entry.startedAt && !now.isZombie;
}

/** Whether there was somebody to take the signal. */
function sendSignal(target: number, signal: NodeJS.Signals | 0): boolean {
  try {
    return process.kill(target, signal);
  } catch {
    // ESRCH: gone meanwhile. EPERM: it has become another user's, and is out of our reach.
    return false;
  }
}

async function waitUntilGone(members: TreeMembers, patienceMs: number, setTimer: SetTimer): Promise<void> {
  let waited = 0;
  for (let step = 5; !members.isEmpty() && waited < patienceMs; step = Math.min(step * 2, 50)) {
    await delay(step, setTimer);
    waited += step;
  }
}

/** There are no process groups; the system's own tool ends a process with its descendants. */
async function killWindowsTree(pid: number): Promise<void> {
  const { promise, resolve } = Promise.withResolvers<void>();
  const tool = spawn("taskkill", ["/PID", String(pid), "/T", "/F"], { stdio: "ignore", windowsHide: true });
  tool.on("error", () => resolve());
  tool.on("close", () => resolve());
  await promise;
}

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
  return [pid, entry.parent, entry.group, entry.session, startedAt].every(Number.isSafeInteger) ? entry : undefined;
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
function carriesMarker(pid: number, marker: string): boolean {
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

/** The line that tells the watchdog of a family. */
export function formatWatchLine(family: ProcessTree): string {
  return `+${JSON.stringify([family.leader, family.marker, family.startedAt ?? null])}\n`;
}

/** The line that tells it that a family has gone. */
export function formatForgetLine(family: ProcessTree): string {
  return `-${family.leader}\n`;
}

/** Brings the families up to date with one line; what is no such line changes nothing. */
export function applyWatchdogLine(families: Map<number, ProcessTree>, line: string): void {
  if (line.startsWith("-")) {
    families.delete(Number(line.slice(1)));
    return;
  }
  const family = line.startsWith("+") ? parseProcessTree(line.slice(1)) : undefined;
  if (family !== undefined) families.set(family.leader, family);
}

function parseProcessTree(text: string): ProcessTree | undefined {
  const [leader, marker, startedAt] = parseList(text);
  // Signals to 0 and 1 and their negatives would reach everybody.
  if (typeof leader !== "number" || !Number.isSafeInteger(leader) || leader <= 1) return undefined;
  if (typeof marker !== "string" || marker === "") return undefined;
  return { leader, marker, startedAt: typeof startedAt === "number" ? startedAt : undefined };
}

function parseList(text: string): readonly unknown[] {
  try {
    const value: unknown = JSON.parse(text);
    return Array.isArray(value) ? value : [];
  } catch {
    return [];
  }
}
