import { mkdirSync, statSync } from "node:fs";
import { enableCompileCache } from "node:module";
import { dirname, join } from "node:path";

import type { Environment } from "../config/substitute.ts";

/** Write permission of group and others. */
const writableByOthers = 0o022;

/**
 * Keeps compiled code for the next start, which is then a fifth faster. It goes into a folder that only the user can
 * write to, not into the temporary folder that Node would use: code planted there would run in the gateway. Without
 * such a folder there is no cache. `NODE_DISABLE_COMPILE_CACHE=1` turns it off.
 */
export function startCompileCache(env: Environment): void {
  const folder = cacheFolder(env);
  if (folder !== undefined && createPrivateFolder(folder)) enableCompileCache(folder);
}

/** The folder of the cache; undefined if the user has no home. */
export function cacheFolder(env: Environment): string | undefined {
  const home = env["HOME"] ?? "";
  const place = [env["XDG_CACHE_HOME"], env["LOCALAPPDATA"], home === "" ? "" : join(home, ".cache")].find(
    (path) => path !== undefined && path !== "",
  );
  return place === undefined ? undefined : join(place, "headgate", "compiled");
}

/** Creates the folder; false if another user can write to it or replace it. */
export function createPrivateFolder(folder: string): boolean {
  try {
    mkdirSync(folder, { recursive: true, mode: 0o700 });
    return [folder, dirname(folder)].every(isPrivate);
  } catch {
    return false;
  }
}

function isPrivate(folder: string): boolean {
  const { uid, mode } = statSync(folder);
  // Windows has neither, and its profile folders are private.
  return process.getuid === undefined || (uid === process.getuid() && (mode & writableByOthers) === 0);
}
