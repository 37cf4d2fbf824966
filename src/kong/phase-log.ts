import { AsyncLocalStorage } from "node:async_hooks";

import type { SidebandLogEntry } from "../policy/sideband/contract.ts";
import type { PdkCall } from "./pdk.ts";

/** Routes the engine's log entries: warnings and errors to Kong's log, the rest to this process's (PA-138). */
export interface PhaseLog {
  /** Logs one entry of the engine. */
  readonly write: (entry: SidebandLogEntry) => void;
  /** Runs part of a phase and captures what it logs for Kong. */
  capture<Outcome>(work: () => Promise<Outcome>): Promise<{ readonly outcome: Outcome; readonly record: PhaseRecord }>;
}

/** The captured entries of a phase. */
export interface PhaseRecord {
  /** Writes them to Kong's log, in order. */
  report(kong: PdkCall): Promise<void>;
}

/**
 * Makes a log for phases that run concurrently. The engine has one log for all of them; the asynchronous context tells
 * which phase an entry belongs to. `line` gets the entries that are not for Kong.
 */
export function createPhaseLog(line: (entry: SidebandLogEntry) => void): PhaseLog {
  const current = new AsyncLocalStorage<SidebandLogEntry[]>();
  return {
    write(entry) {
      const entries = isForKong(entry) ? current.getStore() : undefined;
      if (entries === undefined) line(entry);
      else entries.push(entry);
    },
    async capture(work) {
      const entries: SidebandLogEntry[] = [];
      try {
        const outcome = await current.run(entries, work);
        return { outcome, record: { report: (kong) => report(kong, entries) } };
      } catch (error) {
        // The phase cannot report them any more.
        for (const entry of entries) line(entry);
        throw error;
      }
    },
  };
}

function isForKong({ level }: SidebandLogEntry): boolean {
  return level === "warn" || level === "error";
}

async function report(kong: PdkCall, entries: readonly SidebandLogEntry[]): Promise<void> {
  await Promise.all(entries.map((entry) => logInKong(kong, entry)));
}

/** Writes one entry to Kong's own log, as one JSON object (PA-133). */
export function logInKong(kong: PdkCall, entry: SidebandLogEntry): Promise<void> {
  return kong(entry.level === "error" ? "kong.log.err" : "kong.log.warn", JSON.stringify(entry));
}
