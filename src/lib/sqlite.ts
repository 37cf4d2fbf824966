import type * as Sqlite from "node:sqlite";

// Not imported by name: on a Node without it, users must get to read which version they need (node-version.ts).
const sqlite = process.getBuiltinModule("node:sqlite");

/** A connection to a SQLite database. */
export type DatabaseSync = Sqlite.DatabaseSync;
/** A prepared statement. */
export type StatementSync = Sqlite.StatementSync;
/** Opens a SQLite database. */
export const DatabaseSync = sqlite.DatabaseSync;
