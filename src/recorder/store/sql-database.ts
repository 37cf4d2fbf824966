/** What stands in a column. */
export type ColumnValue = string | number | Uint8Array | null;

/** A row by the names of its columns. */
export type SqlRow = Readonly<Record<string, ColumnValue>>;

/** A database as stores use it. Parameters stand for `?` in their order; whole numbers come as numbers. */
export interface SqlDatabase {
  readonly dialect: "sqlite" | "postgres";
  /** Where it is, without credentials. */
  readonly location: string;
  all(sql: string, values?: readonly ColumnValue[]): Promise<readonly SqlRow[]>;
  /** Resolves with the number of rows that were changed. */
  run(sql: string, values?: readonly ColumnValue[]): Promise<number>;
  /** All of it happens, or nothing. Transactions wait for each other. */
  transaction<T>(work: (inside: SqlDatabase) => Promise<T>): Promise<T>;
  /** Bytes that it takes, as far as it can say so. */
  bytes(): Promise<number>;
  /** Gives back what was freed, as far as that can be done quickly. */
  compact(): Promise<void>;
  close(): Promise<void>;
}

/** Numbers of one capture are this far from those of the next, so that one number names a frame in a store. */
export const captureStride = 4_294_967_296;

/** The number of a frame in a store; that of an exchange is the number of its first frame. */
export function toPosition(capture: number, seq: number): number {
  return capture * captureStride + seq;
}

/** Exchanges stand in blocks by their numbers, and each block says what is in it. Another size is another format. */
export const blockSize = 4096;

/** Writes rows of one table, several with each statement. */
export interface RowInserter {
  /** Where the values of the next row are pushed, one for each column. */
  row(): ColumnValue[];
  /** Whether it is time to write. */
  readonly isFull: boolean;
  /** Writes the rows so far. */
  write(): Promise<void>;
}

/** What is left over goes one by one, so that two statements are enough. */
const rowsAtOnce = 16;

/** Makes an inserter; `behind` stands at the end of its statements. */
export function createRowInserter(
  inside: SqlDatabase,
  table: string,
  columns: readonly string[],
  behind = "",
): RowInserter {
  const width = columns.length;
  const full = width * rowsAtOnce;
  let values: ColumnValue[] = [];
  return {
    row: () => values,
    get isFull() {
      return values.length >= full;
    },
    write: async () => {
      const taken = values;
      values = [];
      if (taken.length === full) {
        await inside.run(statement(table, columns, behind, rowsAtOnce), taken);
        return;
      }
      const one = statement(table, columns, behind, 1);
      for (let at = 0; at < taken.length; at += width) await inside.run(one, taken.slice(at, at + width));
    },
  };
}

const statements = new Map<string, string>();

/** Made once: texts of this length take longer to put together than to look up. */
function statement(table: string, columns: readonly string[], behind: string, rows: number): string {
  const key = `${table} ${rows} ${behind.length}`;
  let text = statements.get(key);
  if (text === undefined) {
    const row = `(${columns.map(() => "?").join(", ")})`;
    text = `INSERT INTO ${table} (${columns.join(", ")}) VALUES ${Array.from({ length: rows }, () => row).join(", ")}${behind}`;
    statements.set(key, text);
  }
  return text;
}
