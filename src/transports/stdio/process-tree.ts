import { spawn } from "node:child_process";
import { existsSync, mkdirSync, readdirSync, readFileSync, rmdirSync } from "node:fs";
import { join } from "node:path";
import { setImmediate } from "node:timers/promises";

import type { SetTimer } from "../../lib/clock.ts";
import { sleep } from "../../lib/timeout.ts";
import { childMarkerVariable } from "./environment.ts";

export interface KillOptions {
  /** Between SIGTERM and SIGKILL. */
  readonly graceMs: number;
  readonly setTimer: SetTimer;
}

/** A killed process exits within milliseconds, unless it waits for a broken disk. */
const killTimeoutMs = 1000;
const killRounds = 3;

/** The tree of a process that was just started as leader of its own group. */
export function processTreeOf(leader: number, marker: string): ProcessTree {
  return { leader, marker, startedAt: readProcess(leader)?.startedAt };
}

/**
 * Kills every process of a tree: SIGTERM, then SIGKILL after the grace period. Without `/proc` only the group is found,
 * so a process that left the group escapes. Never rejects.
 */
export async function killProcessTree(tree: ProcessTree, options: KillOptions): Promise<void> {
  if (process.platform === "win32") {
    await killWindowsTree(tree.leader);
    return;
  }
  const { graceMs, setTimer } = options;
  const members = await findMembers(tree);
  if (members.isEmpty()) return;
  members.signal("SIGTERM");
  await waitForExit(members, graceMs, setTimer);
  // Repeated, because a process may have forked between the look and the signal.
  for (let round = 0; round < killRounds; round += 1) {
    const left = await findMembers(tree);
    if (left.isEmpty()) return;
    left.signal("SIGKILL");
    await waitForExit(left, killTimeoutMs, setTimer);
  }
}

interface TreeMembers {
  signal(name: NodeJS.Signals): void;
  /** Whether all of them have exited. */
  isEmpty(): boolean;
}

async function findMembers(tree: ProcessTree): Promise<TreeMembers> {
  const table = tree.startedAt === undefined ? undefined : await listProcesses();
  if (table === undefined) {
    return { signal: (name) => sendSignal(-tree.leader, name), isEmpty: () => !sendSignal(-tree.leader, 0) };
  }
  let living = findTreeMembers(tree, table, (pid, marker) => carriesMarker(pid, marker) || isInChildGroup(pid, marker));
  return {
    signal(name) {
      // The group in one call, so that no member can restart another.
      if (living.some((entry) => entry.group === tree.leader)) sendSignal(-tree.leader, name);
      for (const entry of living) if (entry.group !== tree.leader) sendSignal(entry.pid, name);
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

/** Whether any process received the signal: none if it has exited (ESRCH) or become another user's (EPERM). */
function sendSignal(target: number, signal: NodeJS.Signals | 0): boolean {
  return attempt(() => process.kill(target, signal)) === true;
}

/** The result of a system call; undefined if it fails, because processes and files may be gone at any moment. */
function attempt<Result>(call: () => Result): Result | undefined {
  try {
    return call();
  } catch {
    return undefined;
  }
}

async function waitForExit(members: TreeMembers, timeoutMs: number, setTimer: SetTimer): Promise<void> {
  let waited = 0;
  for (let step = 5; !members.isEmpty() && waited < timeoutMs; step = Math.min(step * 2, 50)) {
    await sleep(step, setTimer);
    waited += step;
  }
}

/** Windows has no process groups; `taskkill` ends a process with its descendants. */
async function killWindowsTree(pid: number): Promise<void> {
  const { promise, resolve } = Promise.withResolvers<void>();
  const tool = spawn("taskkill", ["/PID", String(pid), "/T", "/F"], { stdio: "ignore", windowsHide: true });
  tool.on("error", () => resolve());
  tool.on("close", () => resolve());
  await promise;
}

/** A process as in `/proc/<pid>/stat` of Linux. */
export interface ProcessEntry {
  readonly pid: number;
  readonly parent: number;
  readonly group: number;
  readonly session: number;
  /** Clock ticks since boot; with the pid it identifies one process. */
  readonly startedAt: number;
  /** It has exited, but its parent has not collected it. */
  readonly isZombie: boolean;
}

/** A child, leader of its own group and session, with everything that it started. */
export interface ProcessTree {
  readonly leader: number;
  /** The value of the marker variable, which descendants inherit. */
  readonly marker: string;
  /** When the leader started, in clock ticks; undefined without `/proc`. */
  readonly startedAt: number | undefined;
}

/** Files read before yielding to other work. */
const processesPerTurn = 32;

/** Parses `/proc/<pid>/stat`. */
export function parseProcess(stat: string): ProcessEntry | undefined {
  // The name in parentheses may contain blanks and parentheses.
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

/** A process; undefined if it has exited, or this is not Linux. */
export function readProcess(pid: number): ProcessEntry | undefined {
  return attempt(() => parseProcess(readFileSync(`/proc/${pid}/stat`, "latin1")));
}

/** All processes of this machine or container; undefined without `/proc`. */
export async function listProcesses(): Promise<readonly ProcessEntry[] | undefined> {
  const names = attempt(() => readdirSync("/proc")) ?? [];
  const entries: ProcessEntry[] = [];
  for (const [index, name] of names.filter((folder) => /^\d+$/u.test(folder)).entries()) {
    if (index % processesPerTurn === processesPerTurn - 1) await setImmediate();
    const entry = readProcess(Number(name));
    if (entry !== undefined) entries.push(entry);
  }
  return entries.length === 0 ? undefined : entries;
}

/**
 * The running processes of a tree: the leader's group and session, their descendants, and processes with the marker in
 * their environment or in the child's cgroup. Without a cgroup, a process with another session, another environment and
 * no parent in the tree is not found.
 */
export function findTreeMembers(
  tree: ProcessTree,
  table: readonly ProcessEntry[],
  isMarked: (pid: number, marker: string) => boolean,
): readonly ProcessEntry[] {
  const { leader, marker, startedAt = 0 } = tree;
  // A process older than the tree, or another one with the pid of the leader, has reused a pid.
  const isReused = table.some((entry) => entry.pid === leader && entry.startedAt !== startedAt);
  const candidates = table.filter((entry) => entry.startedAt >= startedAt);
  const found = new Set<ProcessEntry>();
  if (!isReused) {
    for (const entry of candidates) {
      if (entry.group === leader || entry.session === leader) found.add(entry);
    }
  }
  addDescendants(found, candidates);
  for (const entry of candidates) {
    if (!found.has(entry) && !entry.isZombie && isMarked(entry.pid, marker)) found.add(entry);
  }
  addDescendants(found, candidates);
  return [...found].filter((entry) => !entry.isZombie);
}

/** Whether a process has the marker in its environment; false if that is not readable. */
function carriesMarker(pid: number, marker: string): boolean {
  return attempt(() => readFileSync(`/proc/${pid}/environ`).includes(`${childMarkerVariable}=${marker}\0`)) === true;
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

/** The line that tells the watchdog to watch a tree. */
export function formatWatchLine(tree: ProcessTree): string {
  return `+${JSON.stringify([tree.leader, tree.marker, tree.startedAt ?? null])}\n`;
}

/** The line that tells the watchdog to forget a tree. */
export function formatForgetLine(tree: ProcessTree): string {
  return `-${tree.leader}\n`;
}

/** Applies one line to the watched trees; other lines are ignored. */
export function applyWatchdogLine(trees: Map<number, ProcessTree>, line: string): void {
  if (line.startsWith("-")) {
    trees.delete(Number(line.slice(1)));
    return;
  }
  const tree = line.startsWith("+") ? parseProcessTree(line.slice(1)) : undefined;
  if (tree !== undefined) trees.set(tree.leader, tree);
}

function parseProcessTree(text: string): ProcessTree | undefined {
  const list: unknown = attempt(() => JSON.parse(text) as unknown);
  const [leader, marker, startedAt]: readonly unknown[] = Array.isArray(list) ? list : [];
  // Signals to 0, 1 and their negatives would reach every process.
  if (typeof leader !== "number" || !Number.isSafeInteger(leader) || leader <= 1) return undefined;
  if (typeof marker !== "string" || marker === "") return undefined;
  return { leader, marker, startedAt: typeof startedAt === "number" ? startedAt : undefined };
}

/** Where the cgroups of version 2 may be mounted. */
const mounts = ["/sys/fs/cgroup", "/sys/fs/cgroup/unified"];
let known: { readonly own: string | undefined } | undefined;

/** The folder of the cgroup (version 2) of this process; undefined where there is none. Found out once. */
function ownGroup(): string | undefined {
  if (known === undefined) {
    known = { own: findOwnGroup() };
    if (known.own !== undefined) removeLeftGroups(known.own);
  }
  return known.own;
}

/** Removes the empty cgroups of gateways that were killed. */
function removeLeftGroups(own: string): void {
  for (const name of attempt(() => readdirSync(own)) ?? []) {
    const gateway = /^headgate-(?<pid>\d+)\./u.exec(name)?.groups?.["pid"];
    // Fails if another gateway has removed it, or a process is left in it.
    if (gateway !== undefined && !existsSync(`/proc/${gateway}`)) attempt(() => rmdirSync(join(own, name)));
  }
}

function findOwnGroup(): string | undefined {
  const groups = attempt(() => readFileSync("/proc/self/cgroup", "utf8")) ?? "";
  const path = /^0::(?<path>\/.*)$/mu.exec(groups)?.groups?.["path"];
  if (path === undefined) return undefined;
  return mounts.map((mount) => join(mount, path)).find((folder) => existsSync(join(folder, "cgroup.procs")));
}

/** The folder of a child's cgroup; undefined where this process has none itself. */
function childGroup(marker: string): string | undefined {
  const own = ownGroup();
  return own === undefined ? undefined : join(own, `headgate-${marker}`);
}

/**
 * Creates a cgroup for a child and returns the file that takes its pid. No descendant leaves it by a new session, a new
 * environment or the loss of its parent. Undefined where this process may not create one.
 */
export function createChildGroup(marker: string): string | undefined {
  const folder = childGroup(marker);
  if (folder === undefined) return undefined;
  return attempt(() => {
    // Fails where it is read-only, as in most containers, or another user's.
    mkdirSync(folder);
    return join(folder, "cgroup.procs");
  });
}

/** Whether a process is in the cgroup of a child. */
function isInChildGroup(pid: number, marker: string): boolean {
  if (ownGroup() === undefined) return false;
  return attempt(() => readFileSync(`/proc/${pid}/cgroup`, "utf8").includes(`/headgate-${marker}\n`)) === true;
}

/** Removes the cgroup of a child whose processes have exited. */
export function removeChildGroup(marker: string): void {
  const folder = childGroup(marker);
  // Fails if there was none, or a process is left in it.
  if (folder !== undefined) attempt(() => rmdirSync(folder));
}
