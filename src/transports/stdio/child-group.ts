import { existsSync, mkdirSync, readdirSync, readFileSync, rmdirSync } from "node:fs";
import { join } from "node:path";

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
  try {
    for (const name of readdirSync(own)) {
      const gateway = /^headgate-(?<pid>\d+)\./u.exec(name)?.groups?.["pid"];
      if (gateway !== undefined && !existsSync(`/proc/${gateway}`)) rmdirSync(join(own, name));
    }
  } catch {
    // Another gateway has removed it, or a process is left in it.
  }
}

function findOwnGroup(): string | undefined {
  try {
    const path = /^0::(?<path>\/.*)$/mu.exec(readFileSync("/proc/self/cgroup", "utf8"))?.groups?.["path"];
    if (path === undefined) return undefined;
    const folders = mounts.map((mount) => join(mount, path));
    return folders.find((folder) => existsSync(join(folder, "cgroup.procs")));
  } catch {
    return undefined;
  }
}

function nameOf(marker: string): string {
  return `headgate-${marker}`;
}

/**
 * Creates a cgroup for a child and returns the file that takes its pid. No descendant leaves it by a new session, a new
 * environment or the loss of its parent. Undefined where this process may not create one.
 */
export function createChildGroup(marker: string): string | undefined {
  const own = ownGroup();
  if (own === undefined) return undefined;
  try {
    mkdirSync(join(own, nameOf(marker)));
    return join(own, nameOf(marker), "cgroup.procs");
  } catch {
    // Read-only, as in most containers, or another user's.
    return undefined;
  }
}

/** Whether a process is in the cgroup of a child. */
export function isInChildGroup(pid: number, marker: string): boolean {
  if (ownGroup() === undefined) return false;
  try {
    return readFileSync(`/proc/${pid}/cgroup`, "utf8").includes(`/${nameOf(marker)}\n`);
  } catch {
    // It has exited.
    return false;
  }
}

/** Removes the cgroup of a child whose processes have exited. */
export function removeChildGroup(marker: string): void {
  const own = ownGroup();
  if (own === undefined) return;
  try {
    rmdirSync(join(own, nameOf(marker)));
  } catch {
    // There was none, or a process is left in it.
  }
}
