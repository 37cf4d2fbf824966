import { GatewayError } from "../../errors.ts";
import { captureStride, type SqlDatabase } from "./sql-database.ts";
import { movePacks, packOldFrames } from "./old-formats.ts";

/** The number of the tables' form. */
export const schemaVersion = 3;

/** Any number that nobody else takes for a lock. */
const migrationLock = 7_413_228_541;

async function run(inside: SqlDatabase, statements: readonly string[]): Promise<void> {
  for (const statement of statements) await inside.run(statement);
}

/** Tables that no format has changed. */
async function createCommon(inside: SqlDatabase): Promise<void> {
  const { dialect } = inside;
  const [int, real] = typesOf(dialect);
  await run(inside, [
    `CREATE TABLE capture (
      number ${dialect === "sqlite" ? "INTEGER PRIMARY KEY" : "BIGSERIAL PRIMARY KEY"},
      id TEXT NOT NULL UNIQUE, record TEXT NOT NULL,
      last_seq ${int} NOT NULL, indexed_seq ${int} NOT NULL, stored ${int} NOT NULL DEFAULT 0)`,
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
}

/**
 * Tables of frames and exchanges. Every exchange costs what is written for it while others wait, so there is little:
 * its frames, and a row with what it shares with no other. The one index that has all of them is that by time.
 */
async function createExchanges(inside: SqlDatabase): Promise<void> {
  const { dialect } = inside;
  const [int, real, bytes] = typesOf(dialect);
  const isSqlite = dialect === "sqlite";
  const numbered = isSqlite ? "INTEGER PRIMARY KEY" : "BIGSERIAL PRIMARY KEY";
  // Compared with what we compared ourselves.
  const id = isSqlite ? "TEXT" : 'TEXT COLLATE "C"';
  // The order in which rows are found: those of the exchange lead.
  const join = isSqlite ? "CROSS JOIN" : "JOIN";
  const on = (table: string) =>
    isSqlite ? `${join} ${table}` : `${join} ${table} ON ${table}.number = exchange_own.${table}`;
  const where = isSqlite ? "WHERE party.number = exchange_own.party AND subject.number = exchange_own.subject" : "";
  await run(inside, [
    `CREATE TABLE pack (
      position ${int} PRIMARY KEY, owner ${int}, last_seq ${int} NOT NULL, frames ${int} NOT NULL,
      context TEXT NOT NULL, content ${bytes} NOT NULL)`,
    // The first pack has the number of its exchange; only those that came later are looked for by it.
    "CREATE INDEX pack_by_owner ON pack (owner) WHERE owner <> position",
    `CREATE TABLE exchange_own (
      position ${int} PRIMARY KEY, party ${int} NOT NULL, subject ${int} NOT NULL, at ${real} NOT NULL,
      id ${id} NOT NULL, operation TEXT, parent TEXT, trace_id TEXT, rpc_id TEXT,
      duration_ms ${real}, upstream_ms ${real}, request_bytes ${int} NOT NULL, answer_bytes ${int} NOT NULL)`,
    `CREATE INDEX exchange_by_time ON exchange_own (at${isSqlite ? "" : ", position"})`,
    // Only operations of several exchanges are looked for by their own id.
    "CREATE INDEX exchange_by_operation ON exchange_own (operation) WHERE operation IS NOT NULL",
    "CREATE INDEX exchange_by_duration ON exchange_own (duration_ms) WHERE duration_ms >= 100",
    "CREATE INDEX exchange_unfinished ON exchange_own (at) WHERE duration_ms IS NULL",
    `CREATE TABLE party (
      number ${numbered}, route TEXT NOT NULL, principal TEXT NOT NULL, session TEXT,
      revision TEXT NOT NULL, transport TEXT NOT NULL, context TEXT NOT NULL)`,
    `CREATE TABLE subject (
      number ${numbered}, kind TEXT NOT NULL, direction TEXT NOT NULL, method TEXT NOT NULL, target TEXT,
      state TEXT NOT NULL, error_code ${int}, gateway_code TEXT, decision TEXT, rule TEXT,
      messages ${int} NOT NULL, modified ${int} NOT NULL, redacted ${int} NOT NULL, omitted ${int} NOT NULL)`,
    `CREATE TABLE block (
      number ${int} PRIMARY KEY, first_at ${real} NOT NULL, last_at ${real} NOT NULL,
      first_id ${id} NOT NULL, last_id ${id} NOT NULL, members ${bytes} NOT NULL)`,
    `CREATE VIEW exchange AS SELECT exchange_own.position AS position,
      exchange_own.position / ${captureStride} AS capture, exchange_own.position % ${captureStride} AS seq,
      exchange_own.at AS at, exchange_own.id AS id, COALESCE(exchange_own.operation, exchange_own.id) AS operation,
      exchange_own.parent AS parent, exchange_own.trace_id AS trace_id, exchange_own.rpc_id AS rpc_id,
      exchange_own.duration_ms AS duration_ms, exchange_own.upstream_ms AS upstream_ms,
      exchange_own.request_bytes AS request_bytes, exchange_own.answer_bytes AS answer_bytes,
      party.route AS route, party.principal AS principal, party.session AS session, party.revision AS revision,
      party.transport AS transport, subject.kind AS kind, subject.direction AS direction,
      subject.method AS method, subject.target AS target, subject.state AS state,
      subject.error_code AS error_code, subject.gateway_code AS gateway_code, subject.decision AS decision,
      subject.rule AS rule, subject.messages AS messages, subject.modified AS modified,
      subject.redacted AS redacted, subject.omitted AS omitted
      FROM exchange_own ${on("party")} ${on("subject")} ${where}`,
    "INSERT INTO headgate (name, value) VALUES ('tidied', '0')",
  ]);
}

function typesOf(dialect: SqlDatabase["dialect"]): readonly [string, string, string] {
  return dialect === "sqlite" ? ["INTEGER", "REAL", "BLOB"] : ["BIGINT", "DOUBLE PRECISION", "BYTEA"];
}

/** What leads from each older form to the newest; the first where there is none at all. */
const ways: readonly ((inside: SqlDatabase) => Promise<void>)[] = [
  async (inside) => {
    await createCommon(inside);
    await createExchanges(inside);
  },
  async (inside) => {
    const [int] = typesOf(inside.dialect);
    await run(inside, [
      `ALTER TABLE capture ADD COLUMN stored ${int} NOT NULL DEFAULT 0`,
      "DROP INDEX frame_by_owner",
      "ALTER TABLE exchange RENAME TO old_exchange",
      ...dropIndexes,
    ]);
    await createExchanges(inside);
    await packOldFrames(inside);
    await run(inside, [
      "DROP TABLE frame",
      "DROP TABLE old_exchange",
      // It knows single frames, and comes again by itself.
      inside.dialect === "sqlite"
        ? "INSERT INTO frame_words (frame_words) VALUES ('delete-all')"
        : "DELETE FROM frame_words",
      "UPDATE capture SET indexed_seq = -1",
    ]);
  },
  async (inside) => {
    await run(inside, [
      "ALTER TABLE pack RENAME TO old_pack",
      "DROP INDEX pack_by_owner",
      "ALTER TABLE exchange RENAME TO old_exchange",
      ...dropIndexes,
    ]);
    await createExchanges(inside);
    await movePacks(inside);
    await run(inside, ["DROP TABLE old_pack", "DROP TABLE old_exchange"]);
  },
];

/** Indexes of formats 1 and 2, whose names are wanted again. */
const dropIndexes = ["time", "operation", "duration"].map((name) => `DROP INDEX exchange_by_${name}`);

/** Brings the tables to the newest form; refuses what a newer program has written. */
export async function ensureSchema(database: SqlDatabase): Promise<void> {
  await database.transaction(async (inside) => {
    // Two gateways may start at once; the second waits here until the first is through.
    if (inside.dialect === "postgres") await inside.run(`SELECT pg_advisory_xact_lock(${migrationLock})`);
    await inside.run("CREATE TABLE IF NOT EXISTS headgate (name TEXT PRIMARY KEY, value TEXT NOT NULL)");
    const version = await versionOf(inside);
    checkVersion(version, inside.location);
    const way = ways[version];
    if (way === undefined) return;
    await way(inside);
    await inside.run("DELETE FROM headgate WHERE name = 'format'");
    await inside.run("INSERT INTO headgate (name, value) VALUES ('format', ?)", [String(schemaVersion)]);
  });
}
/** Makes sure that the tables have a form that can be read. */
export async function checkFormat(database: SqlDatabase): Promise<void> {
  let version: number;
  try {
    version = await versionOf(database);
  } catch (cause) {
    throw new GatewayError("store_failed", `${database.location} holds no recordings`, { cause });
  }
  checkVersion(version, database.location);
  if (version < schemaVersion) {
    throw new GatewayError(
      "store_failed",
      `${database.location} has the older format ${version}; a gateway that writes to it brings it up to date`,
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
