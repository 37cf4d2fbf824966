import { AsyncLocalStorage } from "node:async_hooks";
import type { SidebandLogEntry } from "../policy/sideband/contract.ts";
import type { PdkCall } from "./pdk.ts";

/** Brings what the engine logs to where it belongs: warnings and errors to Kong's own log, the rest to ours (PA-138). */
export interface PhaseLog {
  /** Takes one entry of the engine. */
  readonly write: (entry: SidebandLogEntry) => void;
  /** Does some work of a phase; answers with what it logged for Kong. */
  capture<Outcome>(work: () => Promise<Outcome>): Promise<{ readonly outcome: Outcome; readonly record: PhaseRecord }>;
}

/** What a phase has to tell Kong's log. */
export interface PhaseRecord {
  /** Tells it, in order; the calls are made at once. */
  report(kong: PdkCall): Promise<void>;
}

/**
 * A log for phases that run at the same time. The engine serves all of them with one log; which phase an entry belongs
 * to is known from the asynchronous context. `line` takes what is not for Kong.
 */
export function createPhaseLog(line: (entry: SidebandLogEntry) => void): PhaseLog {
  const current = new AsyncLocalStorage<SidebandLogEntry[]>();
  return {
    write(entry) {
      const entries = entry.level === "warn" || entry.level === "error" ? current.getStore() : undefined;
      if (entries === undefined) line(entry);
      else entries.push(entry);
    },
    async capture(work) {
      const entries: SidebandLogEntry[] = [];
      try {
        const outcome = await current.run(entries, work);
        return { outcome, record: { report: (kong) => report(kong, entries) } };
      } catch (error) {
        // The phase will not come to tell Kong of them; they must not be lost with it.
        for (const entry of entries) line(entry);
        throw error;
      }
    },
  };
}

async function report(kong: PdkCall, entries: readonly SidebandLogEntry[]): Promise<void> {
  await Promise.all(
    entries.map((entry) => kong(entry.level === "error" ? "kong.log.err" : "kong.log.warn", JSON.stringify(entry))),
  );
}
