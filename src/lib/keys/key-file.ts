import { randomBytes } from "node:crypto";
import { linkSync, mkdirSync, readFileSync, unlinkSync, writeFileSync } from "node:fs";
import { dirname } from "node:path";

import { makePrivate, ownerOnly } from "./private-file.ts";

const keyBytes = 32;

/**
 * The random key in a file that only its owner can read; makes the file, and its folder, if there is none. Processes that
 * start at the same time get the same key.
 */
export function readOrCreateKey(file: string): Buffer {
  const known = readKey(file);
  if (known !== undefined) return known;
  mkdirSync(dirname(file), { recursive: true, mode: 0o700 });
  const written = `${file}.${process.pid}.new`;
  writeFileSync(written, `${randomBytes(keyBytes).toString("base64url")}\n`, { mode: ownerOnly });
  try {
    // Fails if another process was faster; the file is never seen half written.
    linkSync(written, file);
  } catch (error) {
    if (Reflect.get(Object(error), "code") !== "EEXIST") throw error;
  } finally {
    unlinkSync(written);
  }
  const created = readKey(file);
  if (created === undefined) throw new Error(`${file}: the key file was deleted`);
  return created;
}

function readKey(file: string): Buffer | undefined {
  let text: string;
  try {
    text = readFileSync(file, "utf8");
  } catch (error) {
    if (Reflect.get(Object(error), "code") === "ENOENT") return undefined;
    throw error;
  }
  const key = Buffer.from(text.trim(), "base64url");
  if (key.length !== keyBytes) throw new Error(`${file}: not a key; delete the file to create a new one`);
  makePrivate([file]);
  return key;
}
