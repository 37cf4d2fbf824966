import type { Row, Scalar } from "../row.ts";
import { compareScalars, isScalar } from "../row.ts";
import type { RowCondition, SortKey } from "./store.ts";

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
      return condition.kind === "contains"
        ? value.includes(condition.value)
        : value.startsWith(condition.value);
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

function compares(
  operator: "eq" | "ne" | "gt" | "gte" | "lt" | "lte",
  left: Scalar | null,
  right: Scalar,
): boolean {
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
