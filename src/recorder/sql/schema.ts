import { GatewayError } from "../../errors.ts";
import type { SqlDatabase } from "./database.ts";
import { packOldFrames } from "./pack-old-frames.ts";

/** The number of the tables' form. It rises with every step in `steps`. */
export const schemaVersion = 2;

/** Any number that nobody else takes for a lock. */
const migrationLock = 7_413_228_541;

/** Columns by which exchanges are found quickly, each together with the time. */
const found = ["method", "target", "principal", "session", "route", "state"] as const;

/**
 * What most exchanges have in a column. An index would pay for each of them and find nothing quicker than the order of
 * time does, so it leaves them out.
 */
export const common: Readonly<Record<string, string>> = {
  method: "tools/call",
  principal: "anonymous",
  route: "default",
  state: "ok",
};

/** What leads from one version of the tables to the next. */
type Step = (inside: SqlDatabase) => Promise<void>;

async function run(inside: SqlDatabase, statements: readonly string[]): Promise<void> {
  for (const statement of statements) await inside.run(statement);
}

/** From none at all to the newest. */
const steps: readonly Step[] = [
  async (inside) => {
    const { dialect } = inside;
    const [int, real] = dialect === "sqlite" ? ["INTEGER", "REAL"] : ["BIGINT", "DOUBLE PRECISION"];
    await run(inside, [
      `CREATE TABLE capture (
        number ${dialect === "sqlite" ? "INTEGER PRIMARY KEY" : "BIGSERIAL PRIMARY KEY"},
        id TEXT NOT NULL UNIQUE, record TEXT NOT NULL,
        last_seq ${int} NOT NULL, indexed_seq ${int} NOT NULL)`,
      `CREATE TABLE frame (
        position ${int} PRIMARY KEY, owner ${int}, head TEXT NOT NULL, body TEXT)`,
      "CREATE INDEX frame_by_owner ON frame (owner)",
      `CREATE TABLE exchange (
        position ${int} PRIMARY KEY, capture ${int} NOT NULL, seq ${int} NOT NULL,
        id TEXT NOT NULL, operation TEXT NOT NULL, parent TEXT, at ${real} NOT NULL,
        kind TEXT NOT NULL, direction TEXT NOT NULL, route TEXT NOT NULL, principal TEXT NOT NULL, session TEXT,
        revision TEXT NOT NULL, transport TEXT NOT NULL, trace_id TEXT, rpc_id TEXT,
        method TEXT NOT NULL, target TEXT, state TEXT NOT NULL, error_code ${int}, gateway_code TEXT,
        decision TEXT, rule TEXT, duration_ms ${real}, upstream_ms ${real},
        request_bytes ${int} NOT NULL, answer_bytes ${int} NOT NULL, messages ${int} NOT NULL,
        modified ${int} NOT NULL, redacted ${int} NOT NULL, omitted ${int} NOT NULL)`,
      "CREATE INDEX exchange_by_time ON exchange (at, position)",
      "CREATE INDEX exchange_by_id ON exchange (id)",
      // Only operations of several exchanges are looked for by their own id.
      "CREATE INDEX exchange_by_operation ON exchange (operation) WHERE operation <> id",
      "CREATE INDEX exchange_by_duration ON exchange (duration_ms) WHERE duration_ms >= 100",
      "CREATE INDEX exchange_by_decision ON exchange (decision, at) WHERE decision <> 'allow'",
      ...found.map((column) => `CREATE INDEX exchange_by_${column} ON exchange (${column}, at)`),
      `CREATE TABLE document (
        kind TEXT NOT NULL, key TEXT NOT NULL, value TEXT NOT NULL, at ${real} NOT NULL, PRIMARY KEY (kind, key))`,
      ...(dialect === "sqlite"
        ? [
            `CREATE VIRTUAL TABLE frame_words USING fts5(
              words, content='', contentless_delete=1, detail=none, tokenize='unicode61 remove_diacritics 0')`,
          ]
        : [
            "CREATE TABLE frame_words (position BIGINT PRIMARY KEY, words TSVECTOR NOT NULL)",
            "CREATE INDEX frame_words_by_word ON frame_words USING gin (words)",
          ]),
    ]);
  },
  // The frames of an exchange stand together, and what most exchanges have in common is no longer indexed.
  async (inside) => {
    const int = inside.dialect === "sqlite" ? "INTEGER" : "BIGINT";
    await run(inside, [
      `ALTER TABLE capture ADD COLUMN stored ${int} NOT NULL DEFAULT 0`,
      `CREATE TABLE pack (
        position ${int} PRIMARY KEY, owner ${int}, last_seq ${int} NOT NULL, frames ${int} NOT NULL,
        context TEXT NOT NULL, head TEXT NOT NULL, body TEXT NOT NULL)`,
    ]);
    await packOldFrames(inside);
    await run(inside, [
      "DROP TABLE frame",
      // The first pack has the number of its exchange; only those that came later are looked for by it.
      "CREATE INDEX pack_by_owner ON pack (owner) WHERE owner <> position",
      // It knows single frames, and comes again by itself.
      inside.dialect === "sqlite"
        ? "INSERT INTO frame_words (frame_words) VALUES ('delete-all')"
        : "DELETE FROM frame_words",
      "UPDATE capture SET indexed_seq = -1",
      ...Object.entries(common).flatMap(([column, value]) => [
        `DROP INDEX exchange_by_${column}`,
        `CREATE INDEX exchange_by_${column} ON exchange (${column}, at) WHERE ${column} <> '${value}'`,
      ]),
    ]);
  },
];

/** Brings the tables to the newest form, or for tests to an older one; refuses what a newer program has written. */
export async function migrate(database: SqlDatabase, to = schemaVersion): Promise<void> {
  await database.transaction(async (inside) => {
    // Two gateways may start at once; the second waits here until the first is through.
    if (inside.dialect === "postgres") await inside.run(`SELECT pg_advisory_xact_lock(${migrationLock})`);
    await inside.run("CREATE TABLE IF NOT EXISTS headgate (name TEXT PRIMARY KEY, value TEXT NOT NULL)");
    const version = await versionOf(inside);
    checkVersion(version, inside.place);
    for (const step of steps.slice(version, to)) await step(inside);
    if (version === to) return;
    await inside.run("DELETE FROM headgate WHERE name = 'format'");
    await inside.run("INSERT INTO headgate (name, value) VALUES ('format', ?)", [String(to)]);
  });
}

/** Makes sure that the tables have a form that can be read. */
export async function checkFormat(database: SqlDatabase): Promise<void> {
  let version: number;
  try {
    version = await versionOf(database);
  } catch (cause) {
    throw new GatewayError("store_failed", `${database.place} holds no recordings`, { cause });
  }
  checkVersion(version, database.place);
  if (version < schemaVersion) {
    throw new GatewayError(
      "store_failed",
      `${database.place} has the older format ${version}; a gateway that writes to it brings it up to date`,
    );
  }
}

async function versionOf(database: SqlDatabase): Promise<number> {
  const [row] = await database.all("SELECT value FROM headgate WHERE name = 'format'");
  return Number(row?.["value"] ?? 0);
}

function checkVersion(version: number, place: string): void {
  if (version <= schemaVersion) return;
  throw new GatewayError(
    "store_failed",
    `${place} has format ${version}, and this version reads up to ${schemaVersion}; use a newer one`,
  );
}
