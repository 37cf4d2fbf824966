import { mkdirSync, statSync } from "node:fs";
import { enableCompileCache } from "node:module";
import { dirname, join } from "node:path";

import type { Environment } from "../config/substitute.ts";

/** Others may write here. */
const writableByOthers = 0o022;

/**
 * Keeps what the compiler makes of our files for the next start, which then takes a fifth less. Not in the folder for
 * temporary files, as Node would: whoever can write there has their code run by the gateway. Without a folder of the
 * user's own a start is only slower. `NODE_DISABLE_COMPILE_CACHE=1` turns it off.
 */
export function startCompileCache(env: Environment): void {
  const folder = cacheFolder(env);
  if (folder !== undefined && createPrivateFolder(folder)) enableCompileCache(folder);
}

/** Where it is kept; undefined where the user has no folder. */
export function cacheFolder(env: Environment): string | undefined {
  const home = env["HOME"] ?? "";
  const place = [env["XDG_CACHE_HOME"], env["LOCALAPPDATA"], home === "" ? "" : join(home, ".cache")].find(
    (path) => path !== undefined && path !== "",
  );
  return place === undefined ? undefined : join(place, "headgate", "compiled");
}

/** Makes the folder, and says whether nobody else can write to it, or put another in its place. */
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
  // Windows has neither, and gives every user a folder of their own.
  return process.getuid === undefined || (uid === process.getuid() && (mode & writableByOthers) === 0);
}
