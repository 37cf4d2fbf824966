/** How the values of a field are stored, compared and filtered. */
export type FieldKind = "string" | "integer" | "number" | "boolean" | "json";

/** Which rows. A comparison with a null field is false, except for `isNull` and `ne`. */
export type RowCondition =
  | { readonly kind: "all" }
  | { readonly kind: "and" | "or"; readonly parts: readonly RowCondition[] }
  | { readonly kind: "not"; readonly part: RowCondition }
  | { readonly kind: "compare"; readonly field: string; readonly operator: ComparisonOperator; readonly value: Scalar }
  | { readonly kind: "in"; readonly field: string; readonly values: readonly Scalar[] }
  | { readonly kind: "contains" | "startsWith"; readonly field: string; readonly value: string }
  | { readonly kind: "isNull"; readonly field: string; readonly value: boolean };

/** How a field is compared with a value. */
export type ComparisonOperator = "eq" | "ne" | "gt" | "gte" | "lt" | "lte";

/** Every row. */
export const allRows: RowCondition = { kind: "all" };

/** One sort key. Null sorts first, or last when descending. */
export interface SortKey {
  readonly field: string;
  readonly descending: boolean;
}

/** Which rows to list, in which order. */
export interface RowQuery {
  readonly where: RowCondition;
  /** Ends with the table's key, so that the order is total. */
  readonly sort: readonly SortKey[];
  /** The sort values of the last row of the previous page; the list continues after it. */
  readonly after: readonly (Scalar | null)[] | undefined;
  readonly limit: number;
}

/** How a column differs from the JSON form of its field. */
export interface ColumnMapping {
  readonly column: string;
  readonly encode?: (value: Scalar) => Scalar;
  /** SQL that compares the column, if it is more precise than its JSON form. */
  readonly compared?: (column: string) => string;
  /** Turns the driver's value into the JSON form. */
  readonly decode?: (value: unknown) => JsonValue;
}

/** Table and column names that differ from those of the entity. */
export interface TableMapping {
  readonly name: string;
  readonly columns: ReadonlyMap<string, ColumnMapping>;
  /** False if something else creates and migrates the table. */
  readonly isManaged: boolean;
}

/** A field as a store sees it. */
export interface TableField {
  readonly name: string;
  readonly kind: FieldKind;
  /** Whether null is a valid value. */
  readonly nullable: boolean;
  /** Whether a record may lack the field. */
  readonly optional: boolean;
}

/** What a store needs to know about an entity. */
export interface EntityTable {
  readonly entity: string;
  readonly name: string;
  readonly key: string;
  readonly fields: readonly TableField[];
  /** Groups of fields whose values no two rows share, beside the key. A row with a null among them is not compared. */
  readonly unique: readonly (readonly string[])[];
  /** Groups of fields to index. */
  readonly indexes: readonly (readonly string[])[];
  readonly mapping: TableMapping | undefined;
}

/** One change. `expected` is the row as it was read, so that no concurrent change is lost. */
export type RowChange =
  | { readonly kind: "insert"; readonly table: EntityTable; readonly row: Row }
  | { readonly kind: "replace"; readonly table: EntityTable; readonly expected: Row; readonly row: Row }
  | { readonly kind: "remove"; readonly table: EntityTable; readonly expected: Row };

/**
 * Whether the changes were made: all of them, or none because of the one at `index`. `duplicate`: another row has its
 * key or a unique value. `stale`: the row has changed since it was read.
 */
export type ApplyResult =
  | { readonly ok: true }
  | { readonly ok: false; readonly index: number; readonly problem: "duplicate" | "stale" };

/** Stores the rows of entities. A rejected promise means that the store failed. */
export interface EntityStore {
  /** Called once before anything else; creates missing tables and columns. */
  open(tables: readonly EntityTable[]): Promise<void>;
  list(table: EntityTable, query: RowQuery): Promise<readonly Row[]>;
  count(table: EntityTable, where: RowCondition): Promise<number>;
  /** Makes all changes or none. */
  apply(changes: readonly RowChange[]): Promise<ApplyResult>;
  /** Resolves if the store works. */
  check(): Promise<void>;
  close(): Promise<void>;
}

/** Whether a row fulfils a condition, by the rules that SQL stores follow too. */
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

/** Orders two rows by their sort values. */
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

/** The rows of a page: those after the query's position, in its order, as many as it allows. */
export function pageOf(rows: readonly Row[], { sort, after, limit }: Omit<RowQuery, "where">): readonly Row[] {
  return rows
    .map((row) => ({ row, position: sortPosition(sort, row) }))
    .filter(({ position }) => after === undefined || comparePositions(sort, position, after) > 0)
    .toSorted((one, other) => comparePositions(sort, one.position, other.position))
    .slice(0, limit)
    .map(({ row }) => row);
}

/** The sort values of a row: its position in a list. */
export function sortPosition(sort: readonly SortKey[], row: Row): readonly (Scalar | null)[] {
  return sort.map(({ field }) => scalarAt(row, field));
}

function scalarAt(row: Row, field: string): Scalar | null {
  const value = row[field];
  return isScalar(value) ? value : null;
}

function compares(operator: ComparisonOperator, left: Scalar | null, right: Scalar): boolean {
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

/** A value that JSON can express. */
export type JsonValue = string | number | boolean | null | readonly JsonValue[] | { readonly [key: string]: JsonValue };

/** A JSON object. */
export type JsonObject = Readonly<Record<string, JsonValue>>;

/** One record as a store keeps it: validated by the entity's schema, without `undefined`. */
export type Row = JsonObject;

/** A value that rows can be sorted and filtered by. */
export type Scalar = string | number | boolean;

/** Whether a value can be sorted and filtered by. */
export function isScalar(value: unknown): value is Scalar {
  return typeof value === "string" || typeof value === "number" || typeof value === "boolean";
}

/**
 * How deep a value may nest. Every store and every check walks values by recursion: a deeper record could be stored and
 * never be read, and with it no list that it is in.
 */
const maxNesting = 100;

/** What is wrong with a value that `isStorable` refuses. */
export const notStorable = `must not contain NUL or half of a surrogate pair, or nest deeper than ${maxNesting} levels`;

/** Whether every store keeps a value as it is: PostgreSQL has no NUL in text, and UTF-8 has no lone surrogates. */
export function isStorable(value: unknown, depth = 0): boolean {
  if (typeof value === "string") return !value.includes("\0") && value.isWellFormed();
  if (typeof value !== "object" || value === null) return true;
  if (depth === maxNesting) return false;
  return Object.entries(value).every(
    ([name, inner]: [string, unknown]) => isStorable(name) && isStorable(inner, depth + 1),
  );
}

/** Orders two scalars of the same type as every store does: text by its UTF-8 bytes, false before true. */
function compareScalars(one: Scalar, other: Scalar): number {
  if (one === other) return 0;
  if (typeof one === "string" && typeof other === "string") return Buffer.compare(Buffer.from(one), Buffer.from(other));
  return one < other ? -1 : 1;
}
