import { fstatSync } from "node:fs";
import { destination as openDestination, pino } from "pino";

import { systemClock } from "../exchange.ts";
import type { LogLevel } from "./config.ts";
import { formatLogLine } from "./log-text.ts";

/**
 * What a log line may hold besides its message: flat, and only plain values, so that no header object, message or
 * credential gets there as a whole by accident.
 */
export type LogFields = Readonly<Record<string, string | number | boolean | undefined>>;

/** Writes one line. */
export type LogMethod = (fields: LogFields, message?: string) => void;

/** Where log lines go. */
export interface Logger {
  readonly trace: LogMethod;
  readonly debug: LogMethod;
  readonly info: LogMethod;
  readonly warn: LogMethod;
  readonly error: LogMethod;
  readonly fatal: LogMethod;
  /** Whether a line of this level would be written; ask before making costly fields. */
  isLevelEnabled(level: LogLevel): boolean;
  /** The same log with these fields on every line. */
  child(fields: LogFields): Logger;
}

/** The log of a process, which whoever made it flushes before the process ends. */
export interface RootLogger extends Logger {
  /** Writes out what is still held back; returns when it is written. */
  flush(): void;
  /** Writes lines of another level, and those more severe, from now on. */
  setLevel(level: LogLevel): void;
}

/** What takes the lines, each with its line feed. */
export interface LogDestination {
  write(line: string): unknown;
}

/** How a process logs. */
export interface LogOptions {
  readonly level: LogLevel;
  /** Lines for people instead of JSON. */
  readonly pretty: boolean;
  /** Colours in lines for people. */
  readonly color?: boolean;
  /** Standard error unless said otherwise: standard output belongs to the protocol. */
  readonly destination?: LogDestination;
  /** Takes configured secrets out of a line before it is written. */
  readonly redact?: (line: string) => string;
  /** Milliseconds since 1970, for the time of a line. */
  readonly wall?: () => number;
}

const standardError = 2;

/** A log of JSON lines, or of lines for people. */
export function createLogger(options: LogOptions): RootLogger {
  const { level, pretty, color = false, redact, wall = systemClock.wall } = options;
  // Lines queue up while one is being written, so a slow terminal or a full pipe does not stop the process; lines for
  // machines leave some at a time, because a write for each costs more than making it.
  const gathered = pretty ? {} : { minLength: 4096, periodicFlush: 100 };
  // A file takes what it is given at once; a thread in between, as a pipe needs one, only costs.
  const opened =
    options.destination === undefined
      ? openDestination({ fd: standardError, sync: !pretty && isFile(standardError), ...gathered })
      : undefined;
  // Whoever read the log may be gone, as with a closed terminal. What is left would be tried for ever, at the latest
  // when the process ends; so it is given up, as pino itself does it for broken pipes.
  opened?.on("error", () => {
    Object.assign(opened, { write: () => true, end: () => {}, flushSync: () => {}, destroy: () => {} });
  });
  const target: LogDestination | undefined = options.destination ?? opened;
  const edit = (line: string): string => {
    const clean = redact === undefined ? line : redact(line);
    return pretty ? formatLogLine(clean, { color }) : clean;
  };
  /** Many lines fall into one millisecond. */
  let stampedAt = Number.NaN;
  let stamp = "";
  const root = pino(
    {
      level,
      base: null,
      messageKey: "msg",
      serializers: {},
      timestamp: () => {
        const now = wall();
        if (now !== stampedAt) {
          stampedAt = now;
          stamp = `,"time":"${new Date(now).toISOString()}"`;
        }
        return stamp;
      },
      formatters: { level: (label) => ({ level: label }) },
    },
    redact === undefined && !pretty && opened !== undefined
      ? opened
      : { write: (line: string) => void target?.write(edit(line)) },
  );
  return Object.assign(root, {
    flush: () => opened?.flushSync(),
    setLevel: (next: LogLevel) => {
      root.level = next;
    },
  });
}

function isFile(descriptor: number): boolean {
  try {
    return fstatSync(descriptor).isFile();
  } catch {
    // Closed before we began: there is nothing to write to, and the destination deals with that.
    return false;
  }
}
