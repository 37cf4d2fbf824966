import { homedir } from "node:os";
import { join } from "node:path";

import type { Config } from "../config/config.ts";
import type { Environment } from "../config/substitute.ts";

/** Variables that name the user's home. */
const homes = ["HOME", "XDG_DATA_HOME", "LOCALAPPDATA"] as const;

/** Whether this user has a data folder. */
export function hasDataFolder(env: Environment): boolean {
  return homes.some((name) => (env[name] ?? "") !== "");
}

/** The folder of Headgate among the user's data. */
export function dataFolder(env: Environment, platform: NodeJS.Platform = process.platform): string {
  const home = env["HOME"] ?? homedir();
  const folders: Readonly<Partial<Record<NodeJS.Platform, string>>> = {
    darwin: join(home, "Library", "Application Support"),
    win32: env["LOCALAPPDATA"] ?? join(home, "AppData", "Local"),
  };
  // XDG Base Directory Specification: relative paths must be ignored.
  const xdg = env["XDG_DATA_HOME"];
  const unix = xdg?.startsWith("/") === true ? xdg : join(home, ".local", "share");
  return join(folders[platform] ?? unix, "headgate");
}

/** The configuration with a state folder among the user's data, unless it names one. */
export function withDefaultState(config: Config, env: Environment): Config {
  if (config.state.folder !== undefined || !hasDataFolder(env)) return config;
  return { ...config, state: { ...config.state, folder: dataFolder(env) } };
}
