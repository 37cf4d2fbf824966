import { expect } from "vitest";

import type { ExchangeRecord, Frame } from "../../src/recorder/contract.ts";
import { deriveExchanges } from "../../src/recorder/derive.ts";
import { formatContext, groupFrames } from "../../src/recorder/pack.ts";
import { type ColumnValue, type SqlDatabase, toPosition } from "../../src/recorder/store/sql-database.ts";
import type { RecordStore } from "../../src/recorder/store/store-contract.ts";
import { callFrames, captureRecord } from "./recording.ts";

const whole = callFrames({ id: "a-1", ask: "weather in Bern", answer: "sunny", session: "s1" });
const open = callFrames({ id: "a-2", seq: 10, ask: "and in Basel" });
const woven = [whole.slice(0, 2), open, whole.slice(2)].flat().map((frame, seq) => {
  const { same, ...rest } = frame;
  return { ...rest, seq, ...(same === undefined ? {} : { same: seq - 1 }) };
});

const exchanges = deriveExchanges(woven);
const ownerOf = (id: string): number | null => {
  const own = exchanges.find((exchange) => exchange.id === id);
  return own === undefined ? null : toPosition(1, own.seq);
};

/** Columns of exchanges as both formats had them, by the names of their members. */
const columns = {
  id: "id",
  operation: "operation",
  parent: "parent",
  at: "at",
  kind: "kind",
  direction: "direction",
  route: "route",
  principal: "principal",
  session: "session",
  revision: "revision",
  transport: "transport",
  traceId: "trace_id",
  rpcId: "rpc_id",
  method: "method",
  target: "target",
  state: "state",
  errorCode: "error_code",
  gatewayCode: "gateway_code",
  decision: "decision",
  rule: "rule",
  durationMs: "duration_ms",
  upstreamMs: "upstream_ms",
  requestBytes: "request_bytes",
  answerBytes: "answer_bytes",
  messages: "messages",
  modified: "modified",
  redacted: "redacted",
  omitted: "omitted",
} as const satisfies Partial<Record<keyof ExchangeRecord, string>>;

const indexed = ["method", "target", "principal", "session", "route", "state"];

async function createTables(database: SqlDatabase, format: 1 | 2): Promise<void> {
  const isSqlite = database.dialect === "sqlite";
  const [int, real] = isSqlite ? ["INTEGER", "REAL"] : ["BIGINT", "DOUBLE PRECISION"];
  const statements = [
    "CREATE TABLE headgate (name TEXT PRIMARY KEY, value TEXT NOT NULL)",
    `INSERT INTO headgate (name, value) VALUES ('format', '${format}')`,
    `CREATE TABLE capture (number ${isSqlite ? "INTEGER" : "BIGSERIAL"} PRIMARY KEY, id TEXT NOT NULL UNIQUE,
      record TEXT NOT NULL, last_seq ${int} NOT NULL, indexed_seq ${int} NOT NULL)`,
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
    "CREATE INDEX exchange_by_operation ON exchange (operation) WHERE operation <> id",
    "CREATE INDEX exchange_by_duration ON exchange (duration_ms) WHERE duration_ms >= 100",
    "CREATE INDEX exchange_by_decision ON exchange (decision, at) WHERE decision <> 'allow'",
    ...indexed.map((column) => `CREATE INDEX exchange_by_${column} ON exchange (${column}, at)`),
    `CREATE TABLE document (
      kind TEXT NOT NULL, key TEXT NOT NULL, value TEXT NOT NULL, at ${real} NOT NULL, PRIMARY KEY (kind, key))`,
    ...(isSqlite
      ? [
          `CREATE VIRTUAL TABLE frame_words USING fts5(
            words, content='', contentless_delete=1, detail=none, tokenize='unicode61 remove_diacritics 0')`,
        ]
      : [
          "CREATE TABLE frame_words (position BIGINT PRIMARY KEY, words TSVECTOR NOT NULL)",
          "CREATE INDEX frame_words_by_word ON frame_words USING gin (words)",
        ]),
    ...(format === 1
      ? [
          `CREATE TABLE frame (position ${int} PRIMARY KEY, owner ${int}, head TEXT NOT NULL, body TEXT)`,
          "CREATE INDEX frame_by_owner ON frame (owner)",
        ]
      : [
          `ALTER TABLE capture ADD COLUMN stored ${int} NOT NULL DEFAULT 0`,
          `CREATE TABLE pack (
            position ${int} PRIMARY KEY, owner ${int}, last_seq ${int} NOT NULL, frames ${int} NOT NULL,
            context TEXT NOT NULL, head TEXT NOT NULL, body TEXT NOT NULL)`,
          "CREATE INDEX pack_by_owner ON pack (owner) WHERE owner <> position",
        ]),
  ];
  for (const statement of statements) await database.run(statement);
  await database.run("INSERT INTO capture (number, id, record, last_seq, indexed_seq) VALUES (1, ?, ?, ?, ?)", [
    "c1",
    JSON.stringify(captureRecord("c1", { frames: woven.length })),
    woven.length - 1,
    -1,
  ]);
  for (const exchange of exchanges) {
    const values = Object.keys(columns).map((member): ColumnValue => {
      const value = exchange[member as keyof typeof columns];
      return typeof value === "boolean" ? Number(value) : (value ?? null);
    });
    const names = ["position", "capture", "seq", ...Object.values(columns)];
    await database.run(`INSERT INTO exchange (${names.join(", ")}) VALUES (${names.map(() => "?").join(", ")})`, [
      toPosition(1, exchange.seq),
      1,
      exchange.seq,
      ...values,
    ]);
  }
}

/** Makes tables of format 1, in which every frame had a row of its own, with a call and one that is still open. */
export async function writeFormat1(database: SqlDatabase): Promise<void> {
  await createTables(database, 1);
  await database.run("UPDATE capture SET indexed_seq = last_seq");
  for (const { capture: _capture, seq, body, ...head } of woven) {
    const position = toPosition(1, seq);
    await database.run("INSERT INTO frame (position, owner, head, body) VALUES (?, ?, ?, ?)", [
      position,
      ownerOf(head.exchange),
      JSON.stringify(head),
      body ?? null,
    ]);
    if (body === undefined) continue;
    await database.run(
      database.dialect === "sqlite"
        ? "INSERT INTO frame_words (rowid, words) VALUES (?, ?)"
        : "INSERT INTO frame_words (position, words) VALUES (?, array_to_tsvector(string_to_array(?, ' ')))",
      [position, "weather"],
    );
  }
}

/** Makes tables of format 2, in which packs were JSON and an exchange had all its members in its row. */
export async function writeFormat2(database: SqlDatabase): Promise<void> {
  await createTables(database, 2);
  for (const frames of groupFrames(woven)) {
    const [first] = frames;
    if (first === undefined) continue;
    const { exchange, seq, at, mono, context } = first;
    const head = [exchange, 0, at, mono * 1000, ...frames.map((frame) => oldFrame(frame, first, frames))];
    await database.run(
      "INSERT INTO pack (position, owner, last_seq, frames, context, head, body) VALUES (?, ?, ?, ?, ?, ?, ?)",
      [
        toPosition(1, seq),
        ownerOf(exchange),
        frames.at(-1)?.seq ?? seq,
        frames.length,
        context === undefined ? "" : formatContext(context),
        JSON.stringify(head),
        frames.map(({ body = "" }) => body).join(""),
      ],
    );
  }
  await database.run("UPDATE capture SET stored = ?", [woven.length]);
}

/** As it was written: most by their places, what repeats another by the place of that, and the rest by name. */
function oldFrame(frame: Frame, first: Frame, frames: readonly Frame[]): readonly unknown[] {
  const { kind, leg, passing, bytes, body, id, method, target, same, outcome } = frame;
  const form =
    ["request", "notification", "result", "error"].indexOf(kind) * 8 +
    (leg === "client" ? 0 : 4) +
    (passing === "received" ? 0 : 2);
  const figures = [
    frame.seq - first.seq,
    frame.at - first.at,
    Math.round((frame.mono - first.mono) * 1000),
    form,
    bytes,
    body === undefined ? -1 : body.length,
  ];
  if (same !== undefined && frame.exchange === "a-1") return [...figures, frames.findIndex(({ seq }) => seq === same)];
  if (same !== undefined) return [...figures, { id, method, target, same, outcome }];
  const outcomes = [undefined, "ok", "tool_error", "input_required", "error"];
  return [...figures, id ?? null, method ?? null, target ?? null, outcomes.indexOf(outcome)];
}

/** Expects of a store that was made of an older format that all of it is there, is found, and goes on. */
export async function expectUpgraded(store: RecordStore): Promise<void> {
  const exported: Frame[] = [];
  for await (const line of store.export()) {
    if (line.type !== "frame") continue;
    const { type: _type, ...frame } = line;
    exported.push(frame);
  }
  expect(exported).toEqual(woven);
  expect((await store.exchanges({ order: "oldest" })).exchanges).toEqual(deriveExchanges(woven));
  expect(await store.stats()).toMatchObject({ frames: woven.length, unindexed: woven.length });
  const found = async (text: string) =>
    (await store.exchanges({ where: { type: "text", text, in: "any" } })).exchanges.map(({ id }) => id);
  expect(await found("Basel")).toEqual(["a-2"]);
  expect(await store.index(1000)).toBe(0);
  expect(await found("Basel")).toEqual(["a-2"]);
  expect(await found("sunny")).toEqual(["a-1"]);
  const [, , ...answers] = callFrames({ id: "a-2", seq: 20, answer: "rain" });
  await store.append({ capture: captureRecord("c1"), frames: answers });
  expect((await store.exchange("a-2"))?.state).toBe("ok");
  expect(await store.frames("c1", "a-2")).toHaveLength(4);
  expect(await store.prune({ before: 9_000_000 })).toMatchObject({ exchanges: 2, frames: 8 });
  expect((await store.stats()).frames).toBe(0);
}
