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
export function openServerFactsStore(folder: string, wall: () => number): OpenServerFactsStore {
  const database = openPrivateDatabase(
    join(folder, "servers.sqlite"),
    `
    CREATE TABLE IF NOT EXISTS server (id TEXT PRIMARY KEY, facts TEXT NOT NULL, written_at INTEGER NOT NULL)
      WITHOUT ROWID, STRICT;
  `,
  );
  const find = database.prepare("SELECT facts FROM server WHERE id = ?");
  const insert = database.prepare("INSERT OR REPLACE INTO server VALUES (?, ?, ?)");
  const remove = database.prepare("DELETE FROM server WHERE id = ?");
  const bound = database.prepare(
    "DELETE FROM server WHERE id IN (SELECT id FROM server ORDER BY written_at DESC LIMIT -1 OFFSET ?)",
  );
  return {
    get: (server) => {
      const text = find.get(server)?.["facts"];
      const facts: unknown = typeof text === "string" ? JSON.parse(text) : undefined;
      if (!isObject(facts)) return undefined;
      const { capabilities, instructions } = facts;
      if (!isObject(capabilities)) return undefined;
      return { capabilities, instructions: typeof instructions === "string" ? instructions : undefined };
    },
    set: (server, { capabilities, instructions }) => {
      const text = JSON.stringify({ capabilities, instructions });
      if (text.length > maxLength) {
        remove.run(server);
        return;
      }
      insert.run(server, text, Math.floor(wall()));
      bound.run(maxServers);
    },
    close: () => {
      database.close();
    },
  };
}
