import type { Field, FieldKind } from "../fields.ts";
import type { JsonValue, Row, Scalar } from "../row.ts";

/** Which records: comparisons with a field that is null are false, except `isNull` and `ne`. */
export type Condition =
  | { readonly kind: "all" }
  | { readonly kind: "and" | "or"; readonly parts: readonly Condition[] }
  | { readonly kind: "not"; readonly part: Condition }
  | {
      readonly kind: "compare";
      readonly field: string;
      readonly operator: "eq" | "ne" | "gt" | "gte" | "lt" | "lte";
      readonly value: Scalar;
    }
  | { readonly kind: "in"; readonly field: string; readonly values: readonly Scalar[] }
  | { readonly kind: "contains" | "startsWith"; readonly field: string; readonly value: string }
  | { readonly kind: "isNull"; readonly field: string; readonly value: boolean };

/** Every record. */
export const everything: Condition = { kind: "all" };

/** One sort key; null comes before everything else, last when descending. */
export interface SortKey {
  readonly field: string;
  readonly descending: boolean;
}

/** Which records a list wants. */
export interface ListQuery {
  readonly where: Condition;
  /** Ends with the table's key, so that the order is total. */
  readonly sort: readonly SortKey[];
  /** The sort values of the last record seen: the list goes on behind it. */
  readonly after: readonly (Scalar | null)[] | undefined;
  readonly limit: number;
}

/** How a value of a column is kept where it differs from the JSON form. */
export interface ColumnShape {
  readonly column: string;
  readonly encode?: (value: Scalar) => Scalar;
  /** The column as it is compared, in SQL, where it is finer than what is shown of it. */
  readonly compared?: (column: string) => string;
  /** What a driver gives for the column, made the JSON form again. */
  readonly decode?: (value: unknown) => JsonValue;
}

/** The names of an existing table. */
export interface TableShape {
  readonly name: string;
  readonly columns: ReadonlyMap<string, ColumnShape>;
  /** False for a table that somebody else makes and changes. */
  readonly isOurs: boolean;
}

/** What a store has to know about an entity. */
export interface Table {
  readonly entity: string;
  readonly name: string;
  readonly key: string;
  readonly fields: readonly (Pick<Field, "name" | "nullable" | "optional"> & { readonly kind: FieldKind })[];
  readonly shape: TableShape | undefined;
}

/** One change; `expected` is the record as it was read, so that nobody's change in between is lost. */
export type Change =
  | { readonly kind: "insert"; readonly table: Table; readonly row: Row }
  | { readonly kind: "replace"; readonly table: Table; readonly expected: Row; readonly row: Row }
  | { readonly kind: "remove"; readonly table: Table; readonly expected: Row };

/** Whether the changes were made: all of them, or none because of the one at `index`. */
export type Applied =
  | { readonly ok: true }
  | { readonly ok: false; readonly index: number; readonly problem: "duplicate" | "stale" };

/** Keeps records. Every implementation passes the one contract suite; a rejected promise is a failing store. */
export interface EntityStore {
  /** Called once before anything else; makes what is missing. */
  open(tables: readonly Table[]): Promise<void>;
  list(table: Table, query: ListQuery): Promise<readonly Row[]>;
  count(table: Table, where: Condition): Promise<number>;
  /** Makes all changes or none. */
  apply(changes: readonly Change[]): Promise<Applied>;
  /** Resolves if the store works. */
  check(): Promise<void>;
  close(): Promise<void>;
}
