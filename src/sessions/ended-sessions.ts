import { join } from "node:path";
import type { DatabaseSync, StatementSync } from "node:sqlite";

import type { MaybePromise } from "../lib/is-promise.ts";
import { openPrivateDatabase } from "../lib/keys/private-database.ts";

/** A session that has ended, as it must be remembered until its id would have expired anyway. */
export interface EndedRecord {
  readonly id: string;
  /** Whose it was. */
  readonly owner: string;
  /** Wall times in milliseconds. */
  readonly openedAt: number;
  readonly expiresAt: number;
}

/** Remembers which sessions have ended: their ids still open, and must not bring them back. */
export interface EndedSessions {
  add(session: EndedRecord): void;
  has(session: Pick<EndedRecord, "id" | "owner" | "openedAt">): MaybePromise<boolean>;
  /** Whether a session is on the list itself; others count as ended if they are as old as those that had to be dropped. */
  isListed(id: string): MaybePromise<boolean>;
  close(): void;
}

/** How a list is opened. */
export interface EndedSessionsOptions {
  readonly max?: number;
  readonly onDropped?: (openedUntil: number) => void;
  /** Others have changed its file. All sessions opened until then count as ended. */
  readonly onLost?: (message: string) => void;
}

const maxEnded = 100_000;

/** In the table of floors: the sessions of all owners. */
const everybody = "";

/**
 * Opens the list, in a folder or in memory. It is bounded: beyond that, the sessions opened first are dropped from it, and
 * from then on every session as old as those counts as ended, which is told with the wall time. Both concern the owner of the
 * most entries only, so that nobody ends the sessions of others. Several processes may use one folder.
 */
export function openEndedSessions(
  folder: string | undefined,
  wall: () => number,
  { max = maxEnded, onDropped = () => {}, onLost = () => {} }: EndedSessionsOptions = {},
): EndedSessions {
  const database = openPrivateDatabase({
    file: folder === undefined ? undefined : join(folder, "sessions.sqlite"),
    table: "ended_session",
    tables: `
    CREATE TABLE IF NOT EXISTS ended_session (
      id TEXT PRIMARY KEY, owner TEXT NOT NULL, opened_at INTEGER NOT NULL, expires_at INTEGER NOT NULL
    ) WITHOUT ROWID, STRICT;
    CREATE INDEX IF NOT EXISTS ended_session_by_age ON ended_session (owner, opened_at);
    CREATE TABLE IF NOT EXISTS floor_of (owner TEXT PRIMARY KEY, opened_at INTEGER NOT NULL) WITHOUT ROWID, STRICT;
  `,
    prepare: prepareStatements,
    onLost: (message, { raiseFloor }) => {
      // Any of the sessions opened so far may have been in it.
      raiseFloor.run(everybody, Math.ceil(wall()));
      onLost(message);
    },
  });

  /** Drops half of what the largest owner has at a time, so that it is rarely done. */
  function makeRoom(list: Statements): void {
    list.expire.run(wall());
    list.kept = countOf(list.count);
    if (list.kept < max) return;
    const found = list.largest.get();
    // Where nobody has many, finding the largest again and again would take too long.
    const isSmall = Number(found?.["count"]) < max / 100;
    const owner = isSmall ? everybody : String(found?.["owner"]);
    const have = isSmall ? list.kept / 5 : Number(found?.["count"]);
    const newestDropped = Number(list.oldest.get(owner, Math.floor(have / 2))?.["opened_at"]);
    list.raiseFloor.run(owner, newestDropped);
    list.dropOld.run(owner, newestDropped);
    list.kept = countOf(list.count);
    onDropped(newestDropped);
  }

  return {
    add: ({ id, owner, openedAt, expiresAt }) => {
      database.use((list) => {
        if (list.kept >= max) makeRoom(list);
        list.insert.run(id, owner, Math.floor(openedAt), Math.ceil(expiresAt));
        list.kept++;
      });
    },
    has: ({ id, owner, openedAt }) =>
      database.use(({ find }) => find.get(id, owner, Math.floor(openedAt))?.["found"] === 1),
    isListed: (id) => database.use(({ findListed }) => findListed.get(id)?.["found"] === 1),
    close: () => database.close(),
  };
}

type Statements = ReturnType<typeof prepareStatements>;

function prepareStatements(database: DatabaseSync) {
  const insert = database.prepare("INSERT OR REPLACE INTO ended_session VALUES (?, ?, ?, ?)");
  const expire = database.prepare("DELETE FROM ended_session WHERE expires_at <= ?");
  const count = database.prepare("SELECT count(*) AS count FROM ended_session");
  const largest = database.prepare(
    "SELECT owner, count(*) AS count FROM ended_session GROUP BY owner ORDER BY count DESC, owner LIMIT 1",
  );
  // Without an owner, of everybody.
  const owned = "(?1 = '' OR owner = ?1)";
  const oldest = database.prepare(
    `SELECT opened_at FROM ended_session WHERE ${owned} ORDER BY opened_at LIMIT 1 OFFSET ?2`,
  );
  const dropOld = database.prepare(`DELETE FROM ended_session WHERE ${owned} AND opened_at <= ?2`);
  const raiseFloor = database.prepare("INSERT OR REPLACE INTO floor_of VALUES (?, ?)");
  const find = database.prepare(
    `SELECT EXISTS (SELECT 1 FROM ended_session WHERE id = ?1)
       OR EXISTS (SELECT 1 FROM floor_of WHERE owner IN ('', ?2) AND opened_at >= ?3) AS found`,
  );
  const findListed = database.prepare("SELECT EXISTS (SELECT 1 FROM ended_session WHERE id = ?) AS found");
  return { insert, expire, count, largest, oldest, dropOld, raiseFloor, find, findListed, kept: countOf(count) };
}

const countOf = (count: StatementSync): number => Number(count.get()?.["count"]);
