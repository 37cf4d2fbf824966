import type { Readable, Writable } from "node:stream";
import { readFileSync } from "node:fs";

import type { Environment } from "../config/substitute.ts";

/** The outside world of a command, passed in so that tests can call commands as functions. */
export interface CliIo {
  /** Writes to standard output; adds no line feed. */
  readonly out: (text: string) => void;
  /** Writes to standard error. */
  readonly err: (text: string) => void;
  readonly env: Environment;
  readonly readFile: (path: string) => Promise<string>;
}

/** The outside world of a command that serves until it is stopped. */
export interface ServingIo extends CliIo {
  /** The raw streams, for protocols. */
  readonly stdin: Readable;
  readonly stdout: Writable;
  /** Whether standard error is a terminal. */
  readonly isTerminal: boolean;
  /** Resolves with the signal when the process is told to stop. */
  readonly stopped: () => Promise<string>;
  /** Calls back on every request to reload the configuration; returns a function that unsubscribes. */
  readonly onReload: (callback: () => void) => () => void;
}

/** The version in package.json, two folders above this file both in a checkout and when installed. */
export function packageVersion(): string {
  const text = readFileSync(new URL("../../package.json", import.meta.url), "utf8");
  const parsed: unknown = JSON.parse(text);
  const version: unknown = typeof parsed === "object" && parsed !== null ? Reflect.get(parsed, "version") : undefined;
  return typeof version === "string" ? version : "unknown";
}
