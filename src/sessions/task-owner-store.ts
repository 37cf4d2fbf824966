import { join } from "node:path";

import { openPrivateDatabase } from "../lib/keys/private-database.ts";

/** Remembers who started a task, for the next process. */
export interface TaskOwnerStore {
  get(task: string): string | undefined;
  /** Remembers an owner until a wall time in milliseconds. */
  set(task: string, owner: string, until: number): void;
}

/** Such a store in a file. */
export interface OpenTaskOwnerStore extends TaskOwnerStore {
  close(): void;
}

/** Beyond this, the owners that would be forgotten first are dropped: their tasks are unknown then. */
const maxOwners = 100_000;
const cleanUpEvery = 1000;

/** Opens the store in a folder. Several processes may use one folder. */
export function openTaskOwnerStore(
  folder: string,
  wall: () => number,
  onLost?: (message: string) => void,
): OpenTaskOwnerStore {
  const database = openPrivateDatabase({
    file: join(folder, "tasks.sqlite"),
    table: "owners",
    tables: `
    CREATE TABLE IF NOT EXISTS owners (task TEXT PRIMARY KEY, owner TEXT NOT NULL, until INTEGER NOT NULL)
      WITHOUT ROWID, STRICT;
  `,
    prepare: (opened) => ({
      expire: opened.prepare("DELETE FROM owners WHERE until <= ?"),
      bound: opened.prepare(
        "DELETE FROM owners WHERE task IN (SELECT task FROM owners ORDER BY until DESC LIMIT -1 OFFSET ?)",
      ),
      find: opened.prepare("SELECT owner FROM owners WHERE task = ? AND until > ?"),
      insert: opened.prepare("INSERT OR IGNORE INTO owners VALUES (?, ?, ?)"),
    }),
    onLost,
  });
  let inserted = 0;
  const cleanUp = (): void => {
    database.use(({ expire, bound }) => {
      expire.run(Math.floor(wall()));
      bound.run(maxOwners);
    });
  };
  cleanUp();
  return {
    get: (task) => {
      const owner = database.use(({ find }) => find.get(task, Math.floor(wall()))?.["owner"]);
      return typeof owner === "string" ? owner : undefined;
    },
    set: (task, owner, until) => {
      database.use(({ insert }) => insert.run(task, owner, Math.ceil(until)));
      if (++inserted % cleanUpEvery === 0) cleanUp();
    },
    close: () => database.close(),
  };
}
