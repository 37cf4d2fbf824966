import { join } from "node:path";

import { isObject } from "../lib/is-object.ts";
import { openPrivateDatabase } from "../lib/keys/private-database.ts";
import type { ServerFactsStore } from "./member-facts.ts";

/** Such a store in a file. */
export interface OpenServerFactsStore extends ServerFactsStore {
  close(): void;
}

/** Servers write both; what is longer is not remembered. */
const maxLength = 64 * 1024;
/** Those that were not heard of for longest are forgotten first. */
const maxServers = 1000;

/** Opens the store in a folder. Several processes may use one folder. */
export function openServerFactsStore(
  folder: string,
  wall: () => number,
  onLost?: (message: string) => void,
): OpenServerFactsStore {
  const database = openPrivateDatabase({
    file: join(folder, "servers.sqlite"),
    table: "server",
    tables: `
    CREATE TABLE IF NOT EXISTS server (id TEXT PRIMARY KEY, facts TEXT NOT NULL, written_at INTEGER NOT NULL)
      WITHOUT ROWID, STRICT;
  `,
    prepare: (opened) => ({
      find: opened.prepare("SELECT facts FROM server WHERE id = ?"),
      insert: opened.prepare("INSERT OR REPLACE INTO server VALUES (?, ?, ?)"),
      remove: opened.prepare("DELETE FROM server WHERE id = ?"),
      bound: opened.prepare(
        "DELETE FROM server WHERE id IN (SELECT id FROM server ORDER BY written_at DESC LIMIT -1 OFFSET ?)",
      ),
    }),
    onLost,
  });
  return {
    get: (server) => {
      const text = database.use(({ find }) => find.get(server)?.["facts"]);
      const facts: unknown = typeof text === "string" ? JSON.parse(text) : undefined;
      if (!isObject(facts)) return undefined;
      const { capabilities, instructions } = facts;
      if (!isObject(capabilities)) return undefined;
      return { capabilities, instructions: typeof instructions === "string" ? instructions : undefined };
    },
    set: (server, { capabilities, instructions }) => {
      const text = JSON.stringify({ capabilities, instructions });
      database.use(({ remove, insert, bound }) => {
        if (text.length > maxLength) {
          remove.run(server);
          return;
        }
        insert.run(server, text, Math.floor(wall()));
        bound.run(maxServers);
      });
    },
    close: () => database.close(),
  };
}
