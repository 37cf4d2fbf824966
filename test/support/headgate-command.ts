import { execFile } from "node:child_process";
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join, resolve } from "node:path";

export const headgateBin: string = resolve(import.meta.dirname, "../../bin/headgate.mjs");

/** How a command ended. */
export interface Ended {
  readonly exitCode: number;
  readonly stdout: string;
  readonly stderr: string;
}

export interface CommandOptions {
  readonly cwd?: string;
  /** Besides the environment of this process; undefined takes a variable away. */
  readonly env?: Readonly<Record<string, string | undefined>>;
  /** What the command reads on standard input. */
  readonly input?: string;
}

/** Runs the command as a user's shell would, to its end. */
export async function headgate(args: readonly string[], options: CommandOptions = {}): Promise<Ended> {
  const { promise, resolve: finish } = Promise.withResolvers<Ended>();
  const { cwd, env, input = "" } = options;
  const child = execFile(
    process.execPath,
    [headgateBin, ...args],
    { cwd, env: { ...process.env, ...env }, maxBuffer: 2 ** 26 },
    (error, stdout, stderr) => {
      finish({ exitCode: error === null ? 0 : Number(error.code), stdout, stderr });
    },
  );
  child.stdin?.end(input);
  return promise;
}

/** A folder of a test, removed at its end. */
export interface TestFolder extends Disposable {
  readonly path: string;
  /** Writes a file and returns its path. */
  readonly write: (name: string, text: string) => string;
}

export function testFolder(): TestFolder {
  const path = mkdtempSync(join(tmpdir(), "headgate-test-"));
  return {
    path,
    write: (name, text) => {
      const file = join(path, name);
      writeFileSync(file, text);
      return file;
    },
    [Symbol.dispose]: () => {
      rmSync(path, { recursive: true, force: true });
    },
  };
}
