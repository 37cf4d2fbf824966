import { spawn } from "node:child_process";

import type { SetTimer } from "../../exchange.ts";
import { carriesMarker, listProcesses, findTreeMembers, readProcess } from "./process-table.ts";
import type { ProcessTree, ProcessEntry } from "./process-table.ts";
import { pause } from "./timer.ts";

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
    await pause(step, setTimer);
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
