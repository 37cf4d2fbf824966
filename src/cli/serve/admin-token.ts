import { mkdirSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";

import type { Environment } from "../../config/substitute.ts";
import { createAdminToken } from "../../gateway/admin/sign-in/sign-in.ts";
import { dataFolder, hasDataFolder } from "../data-folder.ts";

/** The file with the token of the admin API, which only its owner can read. */
export function adminTokenFile(env: Environment): string {
  return join(dataFolder(env), "admin-token");
}

/**
 * The token of the user's gateways, created if there is none. Undefined without a data folder, or where it cannot be
 * written: then only the link that the gateway prints signs in.
 */
export function readAdminToken(env: Environment): string | undefined {
  if (!hasDataFolder(env)) return undefined;
  const file = adminTokenFile(env);
  try {
    mkdirSync(dataFolder(env), { recursive: true, mode: 0o700 });
    // Fails where another gateway has just created it.
    writeFileSync(file, `${createAdminToken()}\n`, { mode: 0o600, flag: "wx" });
  } catch {
    // Read below, or reported as missing.
  }
  try {
    const token = readFileSync(file, "utf8").trim();
    return token.length >= 32 ? token : undefined;
  } catch {
    return undefined;
  }
}
