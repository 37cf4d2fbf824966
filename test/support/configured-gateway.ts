import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";

import { type RunningGateway, startGateway } from "./gateway.ts";
import type { ProcessOptions } from "./process.ts";

/** A folder that is gone with its test. */
export interface TemporaryFolder extends Disposable {
  readonly path: string;
  /** Writes a file into it; returns its path. */
  readonly write: (name: string, text: string) => string;
}

/** Makes a temporary folder with these files. */
export function temporaryFolder(files: Readonly<Record<string, string>> = {}): TemporaryFolder {
  const path = mkdtempSync(join(tmpdir(), "headgate-test-"));
  const write = (name: string, text: string): string => {
    const file = join(path, name);
    writeFileSync(file, text);
    return file;
  };
  for (const [name, text] of Object.entries(files)) write(name, text);
  return {
    path,
    write,
    [Symbol.dispose]: () => {
      rmSync(path, { recursive: true, force: true });
    },
  };
}

/** A gateway that runs as a command, with a configuration file in a folder of its own. */
export interface ConfiguredGateway extends RunningGateway {
  readonly folder: TemporaryFolder;
}

/** Runs the command with a configuration, and other files beside it; it logs everything. */
export async function startConfigured(
  config: Readonly<Record<string, unknown>>,
  files: Readonly<Record<string, string>> = {},
  { args = [], ...options }: ProcessOptions & { readonly args?: readonly string[] } = {},
): Promise<ConfiguredGateway> {
  const folder = temporaryFolder(files);
  const whole = { listen: { port: 0 }, admin: false, log: { level: "trace", format: "json" }, ...config };
  const file = folder.write("headgate.json", JSON.stringify(whole));
  try {
    const gateway = await startGateway(["run", "-c", file, ...args], options);
    return {
      ...gateway,
      folder,
      [Symbol.asyncDispose]: async () => {
        await gateway[Symbol.asyncDispose]();
        folder[Symbol.dispose]();
      },
    };
  } catch (error) {
    folder[Symbol.dispose]();
    throw error;
  }
}
