import { join } from "node:path";

import { makePrivate } from "../lib/keys/private-file.ts";
import type { MaybePromise } from "../lib/is-promise.ts";
import { openDatabase } from "../lib/lazy-modules.ts";

/** A session that has ended, as it must be remembered until its id would have expired anyway. */
export interface EndedRecord {
  readonly id: string;
  /** Wall times in milliseconds. */
  readonly openedAt: number;
  readonly expiresAt: number;
}

/** Remembers which sessions have ended: their ids still open, and must not bring them back. */
export interface EndedSessions {
  add(session: EndedRecord): void;
  has(session: Pick<EndedRecord, "id" | "openedAt">): MaybePromise<boolean>;
  close(): void;
}

const maxEnded = 100_000;

/**
 * Opens the list, in a folder or in memory. It is bounded: beyond that, the sessions opened first are dropped from it, and
 * from then on every session as old as those counts as ended. Several processes may use one folder.
 */
export function openEndedSessions(folder: string | undefined, wall: () => number, max = maxEnded): EndedSessions {
  const database = openDatabase(folder === undefined ? ":memory:" : join(folder, "sessions.sqlite"));
  database.exec(`
    PRAGMA busy_timeout = 2000;
    PRAGMA journal_mode = WAL;
    PRAGMA synchronous = NORMAL;
    CREATE TABLE IF NOT EXISTS ended (id TEXT PRIMARY KEY, opened_at INTEGER NOT NULL, expires_at INTEGER NOT NULL)
      WITHOUT ROWID, STRICT;
    CREATE INDEX IF NOT EXISTS ended_by_age ON ended (opened_at);
    CREATE TABLE IF NOT EXISTS floor (one INTEGER PRIMARY KEY CHECK (one = 1), opened_at INTEGER NOT NULL) STRICT;
  `);
  if (folder !== undefined) {
    const file = join(folder, "sessions.sqlite");
    makePrivate([file, `${file}-wal`, `${file}-shm`]);
  }
  const insert = database.prepare("INSERT OR REPLACE INTO ended VALUES (?, ?, ?)");
  const expire = database.prepare("DELETE FROM ended WHERE expires_at <= ?");
  const count = database.prepare("SELECT count(*) AS count FROM ended");
  const oldest = database.prepare("SELECT opened_at FROM ended ORDER BY opened_at LIMIT 1 OFFSET ?");
  const dropOld = database.prepare("DELETE FROM ended WHERE opened_at <= ?");
  const raiseFloor = database.prepare("INSERT OR REPLACE INTO floor VALUES (1, ?)");
  const find = database.prepare(
    "SELECT EXISTS (SELECT 1 FROM ended WHERE id = ?) OR EXISTS (SELECT 1 FROM floor WHERE opened_at >= ?) AS found",
  );
  let kept = Number(count.get()?.["count"]);

  /** Drops a tenth at a time, so that it is rarely done. */
  function makeRoom(): void {
    expire.run(wall());
    kept = Number(count.get()?.["count"]);
    if (kept < max) return;
    const newestDropped = Number(oldest.get(Math.floor(max / 10))?.["opened_at"]);
    raiseFloor.run(newestDropped);
    dropOld.run(newestDropped);
    kept = Number(count.get()?.["count"]);
  }

  return {
    add: ({ id, openedAt, expiresAt }) => {
      if (kept >= max) makeRoom();
      insert.run(id, Math.floor(openedAt), Math.ceil(expiresAt));
      kept++;
    },
    has: ({ id, openedAt }) => find.get(id, Math.floor(openedAt))?.["found"] === 1,
    close: () => {
      database.close();
    },
  };
}
