import { isDeepStrictEqual } from "node:util";

import {
  type ApplyResult,
  type EntityStore,
  type EntityTable,
  type JsonValue,
  matchesCondition,
  pageOf,
  type Row,
  type RowChange,
} from "./store.ts";

/**
 * A store in the memory of this process.
 *
 * @example
 * const kit = await createServerKit({ name: "notes", entities: [Note], store: memoryStore() });
 */
export function memoryStore(): EntityStore {
  const tables = new Map<string, Map<JsonValue, Row>>();
  const rowsOf = (table: EntityTable): Map<JsonValue, Row> => {
    const rows = tables.get(table.name) ?? new Map<JsonValue, Row>();
    tables.set(table.name, rows);
    return rows;
  };
  return {
    open: async () => {},
    list: async (table, query) => {
      const found = [...rowsOf(table).values()].filter((row) => matchesCondition(query.where, row));
      return structuredClone(pageOf(found, query));
    },
    count: async (table, where) => [...rowsOf(table).values()].filter((row) => matchesCondition(where, row)).length,
    apply: async (changes) => {
      // Synchronous, so that no other call sees half of the changes; a failed change undoes the earlier ones.
      const undo: (() => void)[] = [];
      for (const [index, change] of changes.entries()) {
        const problem = applyOne(rowsOf(change.table), change, undo);
        if (problem === undefined) continue;
        for (const step of undo.toReversed()) step();
        return { ok: false, index, problem };
      }
      return { ok: true };
    },
    check: async () => {},
    close: async () => {},
  };
}

function applyOne(
  rows: Map<JsonValue, Row>,
  change: RowChange,
  undo: (() => void)[],
): Extract<ApplyResult, { ok: false }>["problem"] | undefined {
  const { key, unique } = change.table;
  const id = (change.kind === "insert" ? change.row : change.expected)[key] ?? null;
  const before = rows.get(id);
  if (change.kind === "insert" && before !== undefined) return "duplicate";
  if (change.kind !== "insert" && !isDeepStrictEqual(before, change.expected)) return "stale";
  if (change.kind !== "remove" && unique.some((group) => isTaken(rows, before, change.row, group))) return "duplicate";
  undo.push(() => {
    if (before === undefined) rows.delete(id);
    else rows.set(id, before);
  });
  if (change.kind === "remove") rows.delete(id);
  else rows.set(id, structuredClone(change.row));
  return undefined;
}

/** Whether another row has the same values in all fields of the group. */
function isTaken(rows: ReadonlyMap<JsonValue, Row>, own: Row | undefined, row: Row, group: readonly string[]): boolean {
  if (group.some((field) => (row[field] ?? null) === null)) return false;
  return [...rows.values()].some((other) => other !== own && group.every((field) => other[field] === row[field]));
}
