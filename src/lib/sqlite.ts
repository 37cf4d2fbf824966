/** Opens a SQLite database. Not imported by name: a Node without it must get to say which one is needed (node-version.ts). */
export const Database = process.getBuiltinModule("node:sqlite").DatabaseSync;
