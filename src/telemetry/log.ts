import { constants, openSync } from "node:fs";

import { pino } from "pino";
import * as z from "zod";

import { systemClock } from "../core/exchange.ts";
import type { GatewayError } from "../errors.ts";
import { BufferedDestination } from "./buffered-destination.ts";

/**
 * The fields of a log line. Only flat, plain values, so that no header object, message or credential gets in by
 * accident.
 */
export type LogFields = Readonly<Record<string, string | number | boolean | undefined>>;

/** Writes one line. */
export type LogMethod = (fields: LogFields, message?: string) => void;

/** Writes log lines. */
export interface FieldLogger {
  readonly trace: LogMethod;
  readonly debug: LogMethod;
  readonly info: LogMethod;
  readonly warn: LogMethod;
  readonly error: LogMethod;
  readonly fatal: LogMethod;
  /** Whether lines of this level are written; ask before computing costly fields. */
  isLevelEnabled(level: LogLevel): boolean;
  /** A logger that adds these fields to every line. */
  child(fields: LogFields): FieldLogger;
}

/** The logger of a gateway. */
export interface Logger extends FieldLogger {
  /**
   * A faster way to write a line with every message; not every logger has it.
   * @internal
   */
  readonly preformatted?: PreformattedLog;
  /**
   * How many lines were dropped because nobody read them; not every logger counts.
   * @internal
   */
  readonly droppedLines?: () => number;
}

/** Writes lines that are JSON already. Needed by bench load: "150 B call, one log line each". */
export interface PreformattedLog {
  /** Redacts secrets in text; required for all text from a peer. */
  readonly redact: (text: string) => string;
  /** Writes fields given as JSON text, each as `,"name":value`. They are not redacted again. */
  readonly info: (members: string) => void;
}

/** The logger of a process. */
export interface RootLogger extends Logger {
  /** Writes what is buffered, synchronously; waits a second for a reader, five for a slow one. */
  flush(): void;
  /** Changes the least severe level that is written. */
  setLevel(level: LogLevel): void;
}

/** Where lines go, each with its line feed. */
export interface LogDestination {
  write(line: string): unknown;
}

/** How a process logs. */
export interface LogOptions {
  readonly level: LogLevel;
  /** Text lines instead of JSON. */
  readonly pretty: boolean;
  /** Colors in text lines. */
  readonly color?: boolean;
  /** Default: standard error, because standard output may carry the protocol. */
  readonly destination?: LogDestination;
  /** Redacts configured secrets in a line before it is written. */
  readonly redact?: (line: string) => string;
  /** Milliseconds since 1970. */
  readonly wall?: () => number;
  /** Which of several processes with one standard error this is; on every line. */
  readonly worker?: number | undefined;
}

const standardError = 2;

/** Makes the logger of a process. */
export function createLogger(options: LogOptions): RootLogger {
  const { level, pretty, color = false, redact, wall = systemClock.wall, worker } = options;
  const workerMember = worker === undefined ? "" : `,"worker":${worker}`;
  const buffered =
    options.destination === undefined
      ? new BufferedDestination(openStandardError(), {
          // People want to see a line when it is written.
          ...(pretty ? { flushAtLength: 0 } : {}),
          isShared: worker !== undefined,
          onResumed: (dropped) => {
            root.warn({ dropped }, "dropped log lines that could not be written");
          },
        })
      : undefined;
  const target: LogDestination | undefined = options.destination ?? buffered;
  const edit = (line: string): string => {
    const clean = redact === undefined ? line : redact(line);
    return pretty ? formatLogLine(clean, { color }) : clean;
  };
  /** Formatted once per millisecond. */
  let stampedAt = Number.NaN;
  let stamp = "";
  const timestamp = (): string => {
    const now = wall();
    if (now !== stampedAt) {
      stampedAt = now;
      stamp = `,"time":"${new Date(now).toISOString()}"`;
    }
    return stamp;
  };
  const root = pino(
    {
      level,
      base: worker === undefined ? null : { worker },
      messageKey: "msg",
      serializers: {},
      timestamp,
      formatters: { level: (label) => ({ level: label }), log: boundFields },
      // Preformatted lines would lack the fields of a child.
      onChild: (child) => {
        Object.assign(child, { preformatted: undefined });
      },
    },
    { write: (line: string) => void target?.write(edit(line)) },
  );
  return Object.assign(root, {
    preformatted: {
      redact: (text: string) => (redact === undefined ? text : String(JSON.parse(redact(JSON.stringify(text))))),
      info: (members: string) => {
        const line = `{"level":"info"${timestamp()}${workerMember}${members}}\n`;
        target?.write(pretty ? formatLogLine(line, { color }) : line);
      },
    },
    droppedLines: () => buffered?.dropped ?? 0,
    flush: () => {
      buffered?.end();
    },
    setLevel: (next: LogLevel) => {
      root.level = next;
    },
  });
}

/** Longer texts are cut: what a peer sends must not decide how much is logged. */
const longestField = 64 * 1024;
/** Longest method, target or id of a message in a log line. */
const longestName = 1024;

/** Shortens text and says how long it was. Drops the last word too: part of a secret would not be recognised. */
function shorten(text: string, longest: number): string {
  if (text.length <= longest) return text;
  let end = longest;
  while (end > 0 && /[\w.~+=%-]/u.test(text.charAt(end - 1))) end--;
  return `${text.slice(0, end)}… (${text.length} characters)`;
}

/** Shortens a method, target or id for a log line: a client may send one of megabytes. */
export function shortenName<Text extends string | undefined>(text: Text): Text | string {
  return text === undefined ? text : shorten(text, longestName);
}

function boundFields(fields: Record<string, unknown>): Record<string, unknown> {
  const isLong = (value: unknown): value is string => typeof value === "string" && value.length > longestField;
  if (!Object.values(fields).some(isLong)) return fields;
  const bounded = (value: unknown): unknown => (isLong(value) ? shorten(value, longestField) : value);
  return Object.fromEntries(Object.entries(fields).map(([name, value]) => [name, bounded(value)]));
}

/** A descriptor for standard error on which a write never waits for the reader; a file is written at once. */
function openStandardError(): number {
  // Node makes a pipe or a socket non-blocking when it opens the stream, but a terminal blocking.
  if (!process.stderr.isTTY || process.platform === "win32") return standardError;
  try {
    return openSync("/dev/stderr", constants.O_WRONLY | constants.O_NONBLOCK | constants.O_NOCTTY);
  } catch {
    return standardError;
  }
}

/** The log fields of an error: its code, its cause, and the stack if it is a bug of ours. */
export function errorFields(error: GatewayError): LogFields {
  const { code, message, cause } = error;
  const origin = cause instanceof Error ? cause : undefined;
  return {
    error: code,
    detail: message,
    ...(origin === undefined ? {} : { cause: describeError(origin) }),
    ...(code === "internal" ? { stack: (origin ?? error).stack } : {}),
  };
}

function describeError(error: Error): string {
  const code = "code" in error && typeof error.code === "string" ? ` (${error.code})` : "";
  return `${error.name}: ${error.message}${code}`;
}

const colors: Readonly<Record<string, number>> = { warn: 33, error: 31, fatal: 31, debug: 90, trace: 90 };
const dim = 90;

/** Turns a JSON log line into text: time of day, level, message, then the other fields. */
export function formatLogLine(line: string, { color }: { readonly color: boolean }): string {
  const fields = fieldsOf(line);
  // Not a JSON line; shown as it is.
  if (fields === undefined) return line;
  const { time, level, msg, ...rest } = fields;
  const name = String(level);
  const paint = (code: number | undefined, text: string): string =>
    color && code !== undefined ? `\u001B[${code}m${text}\u001B[39m` : text;
  const parts = [
    paint(dim, timeOfDay(time)),
    paint(colors[name], name.padEnd(5)),
    ...(typeof msg === "string" && msg !== "" ? [escapeControls(msg)] : []),
    ...Object.entries(rest).map(([key, value]) => `${paint(dim, `${key}=`)}${formatValue(value)}`),
  ];
  return `${parts.join(" ")}\n`;
}

function fieldsOf(line: string): Readonly<Record<string, unknown>> | undefined {
  try {
    const parsed: unknown = JSON.parse(line);
    return typeof parsed === "object" && parsed !== null ? { ...parsed } : undefined;
  } catch {
    return undefined;
  }
}

function timeOfDay(time: unknown): string {
  const date = new Date(typeof time === "string" ? time : Number.NaN);
  if (Number.isNaN(date.getTime())) return "--:--:--.---";
  const clock = [date.getHours(), date.getMinutes(), date.getSeconds()].map((part) => String(part).padStart(2, "0"));
  return `${clock.join(":")}.${String(date.getMilliseconds()).padStart(3, "0")}`;
}

function formatValue(value: unknown): string {
  if (typeof value !== "string") return JSON.stringify(value);
  return /^[^\s"=\p{Cc}\p{Cf}]+$/u.test(value) ? value : escapeControls(JSON.stringify(value));
}

/** Escapes control characters, so that text from peers cannot control the terminal. */
function escapeControls(text: string): string {
  return text.replaceAll(
    /[\p{Cc}\p{Cf}\p{Zl}\p{Zp}]/gu,
    (character) => `\\u${(character.codePointAt(0) ?? 0).toString(16).padStart(4, "0")}`,
  );
}

/** Log levels; each includes those after it. */
export const logLevels = ["trace", "debug", "info", "warn", "error", "fatal", "silent"] as const;

/** One of the log levels; `silent` logs nothing. */
export type LogLevel = (typeof logLevels)[number];

/** The `log` part of the configuration. */
export const logConfig = z.strictObject({
  level: z
    .enum(logLevels)
    .default("info")
    .describe("The least severe level to log. `info` logs one line per exchange."),
  format: z
    .enum(["auto", "json", "text"])
    .default("auto")
    .describe("JSON lines or readable text. `auto` is text on a terminal and JSON elsewhere."),
});
