import { chmodSync } from "node:fs";
import { open } from "node:fs/promises";
import type { Writable } from "node:stream";

import { thrownCode } from "../thrown-message.ts";

/** Readable and writable for the owner only. */
export const ownerOnly = 0o600;

/** Opens a file for writing that only its owner can read, even if it existed with wider permissions. */
export async function createPrivateFile(file: string): Promise<Writable> {
  const handle = await open(file, "w", ownerOnly);
  try {
    // A pipe or a terminal has no permissions of its own.
    if ((await handle.stat()).isFile()) await handle.chmod(ownerOnly);
  } catch (error) {
    await handle.close();
    throw error;
  }
  return handle.createWriteStream();
}

/** Removes the permissions of others from existing files; files of other owners stay unchanged. */
export function makePrivate(files: readonly string[]): void {
  for (const file of files) {
    try {
      chmodSync(file, ownerOnly);
    } catch (error) {
      const code = thrownCode(error);
      if (code !== "ENOENT" && code !== "EPERM") throw error;
    }
  }
}
