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
  type RowCondition,
} from "./store.ts";

/** A store that collects changes, sees them in its own lists, and makes them all or none. */
export interface StoreTransaction {
  readonly store: EntityStore;
  /** Drops all changes. */
  end(): void;
  /** Makes all changes, or none because of a row of `entity`. */
  commit(): Promise<{ readonly ok: true } | (Extract<ApplyResult, { ok: false }> & { readonly entity: string })>;
}

interface PendingRow {
  readonly table: EntityTable;
  /** The row as it was before the transaction; undefined if it is new. */
  readonly before: Row | undefined;
  /** The row as the transaction leaves it; undefined if it is removed. */
  after: Row | undefined;
}

/**
 * Begins a transaction on a store. A row that was read stays as it was read, so a change that is computed from it fails
 * at the commit if another writer was faster. Rows that are only read are not locked.
 */
export function beginTransaction(store: EntityStore): StoreTransaction {
  const tables = new Map<string, Map<JsonValue, PendingRow>>();
  const read = new Map<string, Map<JsonValue, Row>>();
  const asRead = (table: EntityTable, row: Row): Row => {
    const rows = read.get(table.name) ?? new Map<JsonValue, Row>();
    const first = rows.get(row[table.key] ?? null) ?? row;
    read.set(table.name, rows.set(row[table.key] ?? null, first));
    return first;
  };
  const pendingOf = (table: EntityTable): Map<JsonValue, PendingRow> => {
    const pending = tables.get(table.name) ?? new Map<JsonValue, PendingRow>();
    tables.set(table.name, pending);
    return pending;
  };

  /** The rows of the transaction that fulfil a condition. */
  const own = (table: EntityTable, where: RowCondition): readonly Row[] =>
    [...pendingOf(table).values()].flatMap(({ after }) =>
      after !== undefined && matchesCondition(where, after) ? [after] : [],
    );

  let isOver = false;
  function requireOpen(): void {
    if (!isOver) return;
    // What came now would be lost without a word.
    throw new TypeError("the transaction is over; await every call inside of it, and use its records nowhere else");
  }

  /** Makes one change, unless the transaction has made another one since the row was read. */
  function change(made: RowChange, undo: (() => void)[]): Extract<ApplyResult, { ok: false }>["problem"] | undefined {
    const { table } = made;
    const pending = pendingOf(table);
    const key = (made.kind === "insert" ? made.row : made.expected)[table.key] ?? null;
    const known = pending.get(key);
    const after = made.kind === "remove" ? undefined : made.row;
    if (known === undefined) {
      pending.set(key, { table, before: made.kind === "insert" ? undefined : made.expected, after });
      undo.push(() => pending.delete(key));
      return undefined;
    }
    const current = known.after;
    if (made.kind === "insert" && current !== undefined) return "duplicate";
    if (made.kind !== "insert" && !isDeepStrictEqual(current, made.expected)) return "stale";
    known.after = after;
    undo.push(() => (known.after = current));
    return undefined;
  }

  return {
    store: {
      open: async () => {},
      list: async (table, query) => {
        requireOpen();
        const pending = pendingOf(table);
        // A changed row may leave the page, so as many more are read.
        const stored = await store.list(table, { ...query, limit: query.limit + pending.size });
        const unchanged = stored
          .filter((row) => !pending.has(row[table.key] ?? null))
          .map((row) => asRead(table, row))
          .filter((row) => matchesCondition(query.where, row));
        return pageOf([...unchanged, ...own(table, query.where)], query);
      },
      count: async (table, where) => {
        requireOpen();
        const gone = [...pendingOf(table).values()].filter(
          ({ before }) => before !== undefined && matchesCondition(where, before),
        );
        return (await store.count(table, where)) - gone.length + own(table, where).length;
      },
      apply: async (changes) => {
        requireOpen();
        const undo: (() => void)[] = [];
        for (const [index, made] of changes.entries()) {
          const problem = change(made, undo);
          if (problem === undefined) continue;
          for (const step of undo.toReversed()) step();
          return { ok: false, index, problem };
        }
        return { ok: true };
      },
      check: async () => store.check(),
      close: async () => {},
    },
    end: () => {
      isOver = true;
    },
    commit: async () => {
      isOver = true;
      const changes = [...tables.values()].flatMap((pending) => [...pending.values()].flatMap(toChange));
      // Removed rows first: a new row may take their unique values.
      const ordered = changes.toSorted((one, other) => Number(other.kind === "remove") - Number(one.kind === "remove"));
      const applied = ordered.length === 0 ? ({ ok: true } as const) : await store.apply(ordered);
      return applied.ok ? applied : { ...applied, entity: ordered[applied.index]?.table.entity ?? "" };
    },
  };
}

function toChange({ table, before, after }: PendingRow): readonly RowChange[] {
  if (before === undefined) return after === undefined ? [] : [{ kind: "insert", table, row: after }];
  if (after === undefined) return [{ kind: "remove", table, expected: before }];
  return [{ kind: "replace", table, expected: before, row: after }];
}
