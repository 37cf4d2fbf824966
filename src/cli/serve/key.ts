import { randomBytes } from "node:crypto";
import { text } from "node:stream/consumers";
import { formatApiKey, hashApiKey } from "../../auth/api-key.ts";
import type { PromptIo } from "../prompt.ts";
import { parseCommandLine } from "../command-line.ts";
import { commands, exitCodes } from "../commands.ts";
import { usageError } from "../help.ts";

/** 256 random bits: nobody guesses them, and a plain hash of them is as good as a slow one. */
const keyBytes = 32;
/** A shorter key could be found by trying, once its hash is known. */
const shortestKey = 32;

/** `headgate key`: makes an API key and the hash that the configuration keeps of it. */
export async function key(args: readonly string[], io: PromptIo): Promise<number> {
  const line = parseCommandLine(commands.key.options, args);
  const problem = line.ok
    ? line.positionals.length > 0 || line.program !== undefined
      ? "it takes no arguments"
      : undefined
    : line.problem;
  if (!line.ok || problem !== undefined) {
    io.err(usageError("key", problem ?? ""));
    return exitCodes.usage.code;
  }
  if (line.values.stdin !== true) {
    const made = formatApiKey(randomBytes(keyBytes));
    io.out(`key:  ${made}\nhash: ${hashApiKey(made)}\n`);
    io.err("The key is shown only once: give it to its owner. The hash goes into `auth.authenticators`.\n");
    return exitCodes.ok.code;
  }
  // Whoever pipes a key in seldom means the line feed at its end.
  const given = (io.stdin === undefined ? "" : await text(io.stdin)).replace(/\r?\n$/u, "");
  if (given.length < shortestKey || /[^\x21-\x7E]/u.test(given)) {
    io.err(usageError("key", `the key on standard input must be ${shortestKey} characters of visible ASCII or more`));
    return exitCodes.usage.code;
  }
  io.out(`hash: ${hashApiKey(given)}\n`);
  return exitCodes.ok.code;
}
