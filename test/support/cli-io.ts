import { PassThrough } from "node:stream";

import type { CommandIo } from "../../src/cli/io.ts";
import type { Environment } from "../../src/config/substitute.ts";

/** What may differ from a bare surrounding. */
export interface CliRunOptions {
  readonly env?: Environment;
  /** Lines of a person at the terminal; without them nobody is there. */
  readonly typed?: readonly string[];
  /** Whether standard output is a terminal too. */
  readonly outIsTerminal?: boolean;
}

/** What a command wrote and ended with. */
export interface CliRun {
  readonly exitCode: number;
  readonly out: string;
  readonly err: string;
}

/** Runs a command in this process. */
export async function runCommand(
  command: (args: readonly string[], io: CommandIo) => Promise<number>,
  args: readonly string[],
  { env = {}, typed, outIsTerminal = false }: CliRunOptions = {},
): Promise<CliRun> {
  let [out, err] = ["", ""];
  const stdin = Object.assign(new PassThrough(), { isTTY: typed !== undefined });
  stdin.end(typed?.map((line) => `${line}\n`).join(""));
  const exitCode = await command(args, {
    out: (text) => (out += text),
    err: (text) => (err += text),
    env,
    readFile: () => Promise.reject(new Error("nothing to read")),
    stdin,
    stdout: Object.assign(new PassThrough(), { isTTY: outIsTerminal }),
    isTerminal: typed !== undefined,
  });
  return { exitCode, out, err };
}
