import type { Readable, Writable } from "node:stream";
import { readFileSync } from "node:fs";
import { styleText } from "node:util";
import { createInterface, type Interface } from "node:readline";

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
  /** The command that starts Headgate for this user. */
  readonly ownCommand: string;
  /** Resolves with the signal that asks the process to stop. */
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

const colorNames = ["red", "green", "yellow", "cyan", "dim", "bold"] as const;
type ColorName = (typeof colorNames)[number];

/** Functions that color text, or return it unchanged. */
export type Colors = Readonly<Record<ColorName, (text: string) => string>>;

/** Colors for standard output: on for a terminal, unless NO_COLOR is set (no-color.org). */
export function colorsFor({
  stdout,
  env,
}: {
  readonly stdout?: object | undefined;
  readonly env: Environment;
}): Colors {
  const noColor = env["NO_COLOR"];
  return createColors(isTty(stdout) && (noColor === undefined || noColor === "") && env["TERM"] !== "dumb");
}

/** Colors that are on or off. */
export function createColors(isOn: boolean): Colors {
  const paint = (name: ColorName) => (text: string) => (isOn ? styleText(name, text, { validateStream: false }) : text);
  // One function for each name.
  return Object.fromEntries(colorNames.map((name) => [name, paint(name)])) as Colors;
}

/** The outside world of most commands; without streams they do not prompt, and print no colors. */
export type CommandIo = CliIo & Partial<ServingIo>;

/** Asks the user at the terminal. */
export interface Prompt extends Disposable {
  /** Prints a question on standard error and returns the line typed; undefined at the end of input. */
  readonly ask: (question: string) => Promise<string | undefined>;
}

/** A prompt on the terminal; undefined without one. */
export function createPrompt({ stdin, isTerminal, err }: CommandIo): Prompt | undefined {
  if (stdin === undefined || isTerminal !== true || !isTty(stdin)) return undefined;
  // Opened at the first question: a command that asks nothing must leave standard input alone.
  let lines: { readonly source: Interface; readonly next: AsyncIterator<string> } | undefined;
  return {
    ask: async (question) => {
      if (lines === undefined) {
        const source = createInterface({ input: stdin, terminal: false });
        lines = { source, next: source[Symbol.asyncIterator]() };
      }
      err(question);
      const answer = await lines.next.next();
      if (answer.done === true) err("\n");
      return answer.done === true ? undefined : answer.value;
    },
    [Symbol.dispose]: () => lines?.source.close(),
  };
}

/** Whether a stream is a terminal. */
export function isTty(stream: object | undefined): boolean {
  return stream !== undefined && "isTTY" in stream && stream.isTTY === true;
}
