import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join, resolve } from "node:path";

import { runTool } from "../../scripts/run/tool.ts";
import type { CaptureLine } from "../../src/recorder/store/store-contract.ts";
import { formatCaptureLine } from "../../src/recorder/store/capture-file.ts";

const root = resolve(import.meta.dirname, "../..");

/** The command as users call it. */
export const bin = join(root, "bin/headgate.mjs");

/** A folder of its own that goes when its scope is left. */
export interface Folder extends Disposable {
  /** The path of a file in it. */
  readonly at: (name: string) => string;
  /** Writes a file and gives its path. */
  readonly write: (name: string, text: string) => string;
  /** Writes a capture file and gives its path. */
  readonly capture: (name: string, lines: readonly CaptureLine[]) => string;
}

/** Makes a folder for a test. */
export function temporaryFolder(): Folder {
  const folder = mkdtempSync(join(tmpdir(), "headgate-capture-"));
  const write = (name: string, text: string): string => {
    writeFileSync(join(folder, name), text);
    return join(folder, name);
  };
  return {
    at: (name) => join(folder, name),
    write,
    capture: (name, lines) => write(name, lines.map(formatCaptureLine).join("")),
    [Symbol.dispose]: () => {
      rmSync(folder, { recursive: true });
    },
  };
}

/** Runs the command to its end. */
export async function headgate(...args: readonly string[]): Promise<{ exitCode: number; output: string }> {
  const { exitCode, output } = await runTool(["node", bin, ...args], { cwd: root });
  return { exitCode, output };
}
