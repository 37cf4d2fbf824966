import type { Readable, Writable } from "node:stream";
import { readFileSync } from "node:fs";

import type { Environment } from "../config/substitute.ts";

/** The outside world as a command may use it, so that commands are functions that tests can call. */
export interface CliIo {
  /** Writes to standard output; the text brings its own line feeds. */
  readonly out: (text: string) => void;
  /** Writes to standard error. */
  readonly err: (text: string) => void;
  readonly env: Environment;
  readonly readFile: (path: string) => Promise<string>;
}

/** What commands need that go on until they are told to stop. */
export interface ServingIo extends CliIo {
  /** The streams themselves, for speaking a protocol on them. */
  readonly stdin: Readable;
  readonly stdout: Writable;
  /** Whether a person looks at standard error. */
  readonly isTerminal: boolean;
  /** Resolves with the signal when the process is told to stop. */
  readonly stopped: () => Promise<string>;
  /** Calls back whenever the process is told to read its configuration anew; the answer takes the callback off. */
  readonly onReload: (callback: () => void) => () => void;
}

/** The version in package.json, which stands two folders above this file both in a checkout and when installed. */
export function packageVersion(): string {
  const text = readFileSync(new URL("../../package.json", import.meta.url), "utf8");
  const parsed: unknown = JSON.parse(text);
  const version: unknown = typeof parsed === "object" && parsed !== null ? Reflect.get(parsed, "version") : undefined;
  return typeof version === "string" ? version : "unknown";
}
