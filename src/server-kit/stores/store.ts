import type { Field, FieldKind } from "../contract/fields.ts";
import { compareScalars, isScalar, type JsonValue, type Row, type Scalar } from "../contract/row.ts";

/** Which records: comparisons with a field that is null are false, except `isNull` and `ne`. */
export type RowCondition =
  | { readonly kind: "all" }
  | { readonly kind: "and" | "or"; readonly parts: readonly RowCondition[] }
  | { readonly kind: "not"; readonly part: RowCondition }
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
export const allRows: RowCondition = { kind: "all" };

/** One sort key; null comes before everything else, last when descending. */
export interface SortKey {
  readonly field: string;
  readonly descending: boolean;
}

/** Which records a list wants. */
export interface RowQuery {
  readonly where: RowCondition;
  /** Ends with the table's key, so that the order is total. */
  readonly sort: readonly SortKey[];
  /** The sort values of the last record seen: the list goes on behind it. */
  readonly after: readonly (Scalar | null)[] | undefined;
  readonly limit: number;
}

/** How a value of a column is kept where it differs from the JSON form. */
export interface ColumnMapping {
  readonly column: string;
  readonly encode?: (value: Scalar) => Scalar;
  /** The column as it is compared, in SQL, where it is finer than what is shown of it. */
  readonly compared?: (column: string) => string;
  /** What a driver gives for the column, made the JSON form again. */
  readonly decode?: (value: unknown) => JsonValue;
}

/** The names of an existing table. */
export interface TableMapping {
  readonly name: string;
  readonly columns: ReadonlyMap<string, ColumnMapping>;
  /** False for a table that somebody else makes and changes. */
  readonly isManaged: boolean;
}

/** What a store has to know about an entity. */
export interface EntityTable {
  readonly entity: string;
  readonly name: string;
  readonly key: string;
  readonly fields: readonly (Pick<Field, "name" | "nullable" | "optional"> & { readonly kind: FieldKind })[];
  readonly mapping: TableMapping | undefined;
}

/** One change; `expected` is the record as it was read, so that nobody's change in between is lost. */
export type RowChange =
  | { readonly kind: "insert"; readonly table: EntityTable; readonly row: Row }
  | { readonly kind: "replace"; readonly table: EntityTable; readonly expected: Row; readonly row: Row }
  | { readonly kind: "remove"; readonly table: EntityTable; readonly expected: Row };

/** Whether the changes were made: all of them, or none because of the one at `index`. */
export type ApplyResult =
  | { readonly ok: true }
  | { readonly ok: false; readonly index: number; readonly problem: "duplicate" | "stale" };

/** Keeps records. Every implementation passes the one contract suite; a rejected promise is a failing store. */
export interface EntityStore {
  /** Called once before anything else; makes what is missing. */
  open(tables: readonly EntityTable[]): Promise<void>;
  list(table: EntityTable, query: RowQuery): Promise<readonly Row[]>;
  count(table: EntityTable, where: RowCondition): Promise<number>;
  /** Makes all changes or none. */
  apply(changes: readonly RowChange[]): Promise<ApplyResult>;
  /** Resolves if the store works. */
  check(): Promise<void>;
  close(): Promise<void>;
}

/** Whether a record fulfils a condition, with the rules that SQL stores follow too. */
export function matchesCondition(condition: RowCondition, row: Row): boolean {
  switch (condition.kind) {
    case "all":
      return true;
    case "and":
      return condition.parts.every((part) => matchesCondition(part, row));
    case "or":
      return condition.parts.some((part) => matchesCondition(part, row));
    case "not":
      return !matchesCondition(condition.part, row);
    case "compare":
      return compares(condition.operator, scalarAt(row, condition.field), condition.value);
    case "in": {
      const value = scalarAt(row, condition.field);
      return value !== null && condition.values.includes(value);
    }
    case "contains":
    case "startsWith": {
      const value = scalarAt(row, condition.field);
      if (typeof value !== "string") return false;
      return condition.kind === "contains" ? value.includes(condition.value) : value.startsWith(condition.value);
    }
    case "isNull":
      return (scalarAt(row, condition.field) === null) === condition.value;
  }
}

/** Orders two records by their sort values. */
export function comparePositions(
  sort: readonly SortKey[],
  one: readonly (Scalar | null)[],
  other: readonly (Scalar | null)[],
): number {
  for (const [index, { descending }] of sort.entries()) {
    const order = compareNullable(one[index] ?? null, other[index] ?? null);
    if (order !== 0) return descending ? -order : order;
  }
  return 0;
}

/** The values of a record that decide where it stands in a list. */
export function sortPosition(sort: readonly SortKey[], row: Row): readonly (Scalar | null)[] {
  return sort.map(({ field }) => scalarAt(row, field));
}

function scalarAt(row: Row, field: string): Scalar | null {
  const value = row[field];
  return isScalar(value) ? value : null;
}

function compares(operator: "eq" | "ne" | "gt" | "gte" | "lt" | "lte", left: Scalar | null, right: Scalar): boolean {
  if (left === null) return operator === "ne";
  const order = compareScalars(left, right);
  switch (operator) {
    case "eq":
      return order === 0;
    case "ne":
      return order !== 0;
    case "gt":
      return order > 0;
    case "gte":
      return order >= 0;
    case "lt":
      return order < 0;
    case "lte":
      return order <= 0;
  }
}

function compareNullable(one: Scalar | null, other: Scalar | null): number {
  if (one === null || other === null) return Number(one !== null) - Number(other !== null);
  return compareScalars(one, other);
}
