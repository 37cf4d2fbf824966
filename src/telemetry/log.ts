import { fstatSync } from "node:fs";

import { destination as openDestination, pino } from "pino";

import { systemClock } from "../core/exchange.ts";
import type { LogLevel } from "./config.ts";
import { BufferedDestination } from "./buffered-destination.ts";
import type { GatewayError } from "../errors.ts";

/**
 * What a log line may hold besides its message: flat, and only plain values, so that no header object, message or
 * credential gets there as a whole by accident.
 */
export type LogFields = Readonly<Record<string, string | number | boolean | undefined>>;

/** Writes one line. */
export type LogMethod = (fields: LogFields, message?: string) => void;

/** Where log lines go. */
export interface FieldLogger {
  readonly trace: LogMethod;
  readonly debug: LogMethod;
  readonly info: LogMethod;
  readonly warn: LogMethod;
  readonly error: LogMethod;
  readonly fatal: LogMethod;
  /** Whether a line of this level would be written; ask before making costly fields. */
  isLevelEnabled(level: LogLevel): boolean;
  /** The same log with these fields on every line. */
  child(fields: LogFields): FieldLogger;
}

/** The log of a gateway. */
export interface Logger extends FieldLogger {
  /** For whoever writes a line with every message; left out by logs that take only fields. */
  readonly preformatted?: PreformattedLog;
}

/** Writes lines that somebody else puts together, who knows better than a general serialiser what is in them. */
export interface PreformattedLog {
  /** A text without the secrets in it: what comes from peers goes into a line only like this. */
  readonly redact: (text: string) => string;
  /** Writes fields that are JSON text already, each as `,"name":value`. Nothing is taken out of them any more. */
  readonly info: (members: string) => void;
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
  // Lines queue up while one is being written, so a slow terminal or a full pipe does not stop the process.
  // A file takes what it is given at once; a thread in between, as a pipe needs one, only costs.
  const opened =
    options.destination === undefined
      ? openDestination({ fd: standardError, sync: !pretty && isFile(standardError) })
      : undefined;
  // Whoever read the log may be gone, as with a closed terminal. What is left would be tried for ever, at the latest
  // when the process ends; so it is given up, as pino itself does it for broken pipes.
  opened?.on("error", () => {
    Object.assign(opened, { write: () => true, end: () => {}, flushSync: () => {}, destroy: () => {} });
  });
  // Lines for people leave at once, those for machines some at a time.
  const gathering = opened === undefined || pretty ? undefined : new BufferedDestination(opened);
  const target: LogDestination | undefined = options.destination ?? gathering ?? opened;
  const edit = (line: string): string => {
    const clean = redact === undefined ? line : redact(line);
    return pretty ? formatLogLine(clean, { color }) : clean;
  };
  /** Many lines fall into one millisecond. */
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
      base: null,
      messageKey: "msg",
      serializers: {},
      timestamp,
      formatters: { level: (label) => ({ level: label }) },
      // Quick lines would be without the fields of a child.
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
        const line = `{"level":"info"${timestamp()}${members}}\n`;
        target?.write(pretty ? formatLogLine(line, { color }) : line);
      },
    },
    flush: () => {
      gathering?.flush();
      opened?.flushSync();
    },
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

/** The fields of a log line about an error: its code, what is known of its cause, and the stack where it is our bug. */
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

/** Turns one JSON log line into a line for people: time of day, level, message, then the other fields. */
export function formatLogLine(line: string, { color }: { readonly color: boolean }): string {
  const fields = fieldsOf(line);
  // What is no log line of ours is shown as it is rather than lost.
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

/** Text from peers must not be able to steer the terminal. */
function escapeControls(text: string): string {
  return text.replaceAll(
    /[\p{Cc}\p{Cf}\p{Zl}\p{Zp}]/gu,
    (character) => `\\u${(character.codePointAt(0) ?? 0).toString(16).padStart(4, "0")}`,
  );
}
