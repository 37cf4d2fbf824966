import type { EnginePhase, SidebandLogEntry } from "./contract.ts";

/** Writes log entries of one phase. */
export type PhaseLog = (
  level: SidebandLogEntry["level"],
  msg: string,
  fields?: Readonly<Record<string, unknown>>,
) => void;

/** Makes the writer for a phase; every entry carries the same head (PA-133). */
export function createPhaseLog(
  write: (entry: SidebandLogEntry) => void,
  head: { readonly plugin: string; readonly phase: EnginePhase; readonly service_url: string },
): PhaseLog {
  return (level, msg, fields = {}) => write({ ...head, level, msg, ...fields });
}

/** The fields of an entry for loggers that take plain values only: what is an object becomes its JSON text. */
export function toPlainFields(
  entry: SidebandLogEntry,
): Readonly<Record<string, string | number | boolean | undefined>> {
  return Object.fromEntries(
    Object.entries(entry).flatMap(([name, value]) =>
      name === "level" || name === "msg" ? [] : [[name, isPlain(value) ? value : JSON.stringify(value)]],
    ),
  );
}

function isPlain(value: unknown): value is string | number | boolean | undefined {
  return value === undefined || ["string", "number", "boolean"].includes(typeof value);
}
