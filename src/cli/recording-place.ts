import { homedir } from "node:os";
import { join } from "node:path";

import { loadConfig } from "../config/load.ts";
import { formatProblem } from "../config/problem.ts";
import type { Environment } from "../config/substitute.ts";
import { GatewayError } from "../errors.ts";
import type { CliIo } from "./io.ts";

/** Which recordings are meant, as the command line says it. */
export interface StoreArguments {
  readonly store?: string | undefined;
  readonly config?: string | undefined;
}

/** The file that a gateway writes to unless it is told otherwise: in the user's own data folder. */
export function defaultRecordingFile(env: Environment, platform: NodeJS.Platform = process.platform): string {
  const home = env["HOME"] ?? homedir();
  const folders: Readonly<Partial<Record<NodeJS.Platform, string>>> = {
    darwin: join(home, "Library", "Application Support"),
    win32: env["LOCALAPPDATA"] ?? join(home, "AppData", "Local"),
  };
  // XDG Base Directory Specification: a path that is not absolute is to be ignored.
  const xdg = env["XDG_DATA_HOME"];
  const unix = xdg?.startsWith("/") === true ? xdg : join(home, ".local", "share");
  return join(folders[platform] ?? unix, "headgate", "recordings.sqlite");
}

/** Where the recordings are that the command line means: a path or the URL of a database. */
export async function resolveStore(
  { store, config: file }: StoreArguments,
  { env, readFile }: Pick<CliIo, "env" | "readFile">,
): Promise<string> {
  if (store !== undefined && file !== undefined)
    throw new GatewayError("config_invalid", "give one of --store and --config, not both");
  if (store !== undefined) return store;
  if (file === undefined) return defaultRecordingFile(env);
  const loaded = await loadConfig({ file, env, readFile });
  if (!loaded.ok) {
    const problems = loaded.problems.map((problem) => formatProblem(problem, file));
    throw new GatewayError("config_invalid", problems.join("\n"));
  }
  const { record } = loaded.config;
  if (record === false) throw new GatewayError("config_invalid", `${file} says that nothing is recorded`);
  return record?.postgres ?? record?.file ?? defaultRecordingFile(env);
}
