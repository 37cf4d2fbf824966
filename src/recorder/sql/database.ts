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
