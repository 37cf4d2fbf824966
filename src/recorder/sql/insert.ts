import type { SqlDatabase, ColumnValue } from "./database.ts";

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
