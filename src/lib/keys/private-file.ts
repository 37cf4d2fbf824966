import { chmodSync } from "node:fs";
import { open } from "node:fs/promises";
import type { Writable } from "node:stream";

/** Readable and writable for the owner only. */
export const ownerOnly = 0o600;

/** Opens a file for writing that only its owner can read, also where it existed with wider permissions. */
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

/** Takes the permissions of others away from files that exist; missing files and those of other owners stay. */
export function makePrivate(files: readonly string[]): void {
  for (const file of files) {
    try {
      chmodSync(file, ownerOnly);
    } catch (error) {
      const code: unknown = Reflect.get(Object(error), "code");
      if (code !== "ENOENT" && code !== "EPERM") throw error;
    }
  }
}
