import { GatewayError } from "../../errors.ts";
import { thrownMessage } from "../../lib/thrown-message.ts";
/** The value of a column. */
export type ColumnValue = string | number | Uint8Array | null;

/** A row, by column name. */
export type SqlRow = Readonly<Record<string, ColumnValue>>;

/** A database as stores use it. Values replace `?` in order; integers are returned as numbers. */
export interface SqlDatabase {
  readonly dialect: "sqlite" | "postgres";
  /** File or URL, without credentials. */
  readonly location: string;
  all(sql: string, values?: readonly ColumnValue[]): Promise<readonly SqlRow[]>;
  /** Resolves with the number of changed rows. */
  run(sql: string, values?: readonly ColumnValue[]): Promise<number>;
  /** Runs in a transaction, one at a time. */
  transaction<T>(work: (inside: SqlDatabase) => Promise<T>): Promise<T>;
  /** Bytes in use. */
  bytes(): Promise<number>;
  /** Returns free space to the system, as far as that is quick. */
  compact(): Promise<void>;
  /** Rejects if what is written can no longer be found, because others changed its file. */
  check(): Promise<void>;
  close(): Promise<void>;
}

/** The distance between the positions of two captures. */
export const captureStride = 4_294_967_296;

/** The position of a frame in a store: capture and number in one integer. An exchange has that of its first frame. */
export function toPosition(capture: number, seq: number): number {
  return capture * captureStride + seq;
}

/** How many positions a block of the index covers. Another size is another store format. */
export const blockSize = 4096;

/** Writes rows of one table, several per statement. */
export interface RowInserter {
  /** The array to push the values of the next row to, one per column. */
  row(): ColumnValue[];
  /** Whether `write` is due. */
  readonly isFull: boolean;
  /** Writes the rows added so far. */
  write(): Promise<void>;
}

/** In SQLite, fewer rows are written one by one, so that two prepared statements are enough. */
const rowsAtOnce = 16;
/** A PostgreSQL server may be far away, so that every statement costs its round trip; it takes this many values. */
const remoteValues = 65_535;

/** Makes an inserter; `suffix` ends its statements. */
export function createRowInserter(
  inside: SqlDatabase,
  table: string,
  columns: readonly string[],
  suffix = "",
): RowInserter {
  const width = columns.length;
  const isRemote = inside.dialect === "postgres";
  const full = width * (isRemote ? Math.floor(remoteValues / width) : rowsAtOnce);
  let values: ColumnValue[] = [];
  return {
    row: () => values,
    get isFull() {
      return values.length >= full;
    },
    write: async () => {
      const taken = values;
      values = [];
      if (isRemote) {
        if (taken.length > 0) await inside.run(insertOf(table, columns, suffix, taken.length / width), taken);
        return;
      }
      if (taken.length === full) {
        await inside.run(statement(table, columns, suffix, rowsAtOnce), taken);
        return;
      }
      const one = statement(table, columns, suffix, 1);
      for (let at = 0; at < taken.length; at += width) await inside.run(one, taken.slice(at, at + width));
    },
  };
}

const statements = new Map<string, string>();

/** Built once: looking up a statement is faster than building it. */
function statement(table: string, columns: readonly string[], suffix: string, rows: number): string {
  const key = `${table} ${rows} ${suffix.length}`;
  let text = statements.get(key);
  if (text === undefined) {
    text = insertOf(table, columns, suffix, rows);
    statements.set(key, text);
  }
  return text;
}

function insertOf(table: string, columns: readonly string[], suffix: string, rows: number): string {
  const row = `(${columns.map(() => "?").join(", ")})`;
  return `INSERT INTO ${table} (${columns.join(", ")}) VALUES ${Array.from({ length: rows }, () => row).join(", ")}${suffix}`;
}

/** The error of a database that cannot be used. */
export function storeError(location: string, cause: unknown): GatewayError {
  const text = `cannot use the recordings in ${location}: ${thrownMessage(cause)}`;
  return new GatewayError("store_failed", text, { cause });
}
