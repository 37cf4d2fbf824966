import { existsSync, readFileSync } from "node:fs";

import type { KitEnvironment } from "./contract.ts";

/** Environment variables. */
export type EnvironmentVariables = Readonly<Record<string, string | undefined>>;

/** Reads a small file of the system; undefined where there is none. */
export type ReadSystemFile = (path: string) => string | undefined;

/**
 * Where the process runs (KO-136): `NODE_ENV` if it says so, else the marks of a container, which count as deployed.
 * The setting `environment` outranks both.
 */
export function detectEnvironment(
  variables: EnvironmentVariables,
  readMark: ReadSystemFile = readSystemFile,
): KitEnvironment {
  const { NODE_ENV: named } = variables;
  if (named === "production") return { deployed: true, name: "production" };
  if (named === "development" || named === "test") return { deployed: false, name: named };
  return isContainer(variables, readMark)
    ? { deployed: true, name: "container" }
    : { deployed: false, name: "development" };
}

function isContainer(variables: EnvironmentVariables, readMark: ReadSystemFile): boolean {
  if (variables["KUBERNETES_SERVICE_HOST"] !== undefined) return true;
  if (["/.dockerenv", "/run/.containerenv"].some((path) => readMark(path) !== undefined)) return true;
  return /docker|kubepods|containerd|libpod/u.test(readMark("/proc/1/cgroup") ?? "");
}

function readSystemFile(path: string): string | undefined {
  try {
    return existsSync(path) ? readFileSync(path, "utf8") : undefined;
  } catch {
    return undefined;
  }
}
