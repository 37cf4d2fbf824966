import { randomBytes } from "node:crypto";
import { text } from "node:stream/consumers";

import { formatApiKey, hashApiKey } from "../../auth/api-key.ts";
import { exitCodes } from "../commands.ts";
import { defineCommand, UsageError } from "../define-command.ts";
import type { CommandIo } from "../io.ts";

/** 256 random bits cannot be guessed, so a plain hash of them is as safe as a slow one. */
const keyBytes = 32;
/** A shorter key could be found from its hash by trying. */
const minKeyLength = 32;

/** `headgate key`: generates an API key and the hash for the configuration. */
export const key = defineCommand("key", async ({ values, positionals }, io: CommandIo) => {
  if (positionals.length > 0) throw new UsageError("takes no arguments");
  if (values.stdin !== true) {
    const made = formatApiKey(randomBytes(keyBytes));
    io.out(`key:  ${made}\nhash: ${hashApiKey(made)}\n`);
    io.err("The key is shown only once: give it to its owner. Put the hash into `auth.authenticators`.\n");
    return exitCodes.ok.code;
  }
  // A piped key usually ends with a line feed that does not belong to it.
  const given = (io.stdin === undefined ? "" : await text(io.stdin)).replace(/\r?\n$/u, "");
  if (given.length < minKeyLength || /[^\x21-\x7E]/u.test(given))
    throw new UsageError(`the key on standard input must be at least ${minKeyLength} visible ASCII characters`);
  io.out(`hash: ${hashApiKey(given)}\n`);
  return exitCodes.ok.code;
});
