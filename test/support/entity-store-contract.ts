import fc from "fast-check";
import { afterEach, beforeEach, describe, expect, it } from "vitest";

import {
  allRows,
  comparePositions,
  type EntityStore,
  type EntityTable,
  matchesCondition,
  type Row,
  type RowChange,
  type RowCondition,
  type RowQuery,
  type Scalar,
  type SortKey,
  sortPosition,
} from "../../src/server-kit/stores/store.ts";
import { beginTransaction } from "../../src/server-kit/stores/transaction.ts";

/** A table with a field of every kind. */
export const contractTable: EntityTable = {
  entity: "Sample",
  name: "Sample",
  key: "id",
  mapping: undefined,
  unique: [],
  indexes: [],
  fields: [
    { name: "id", kind: "string", nullable: false, optional: false },
    { name: "text", kind: "string", nullable: false, optional: false },
    { name: "amount", kind: "number", nullable: true, optional: false },
    { name: "whole", kind: "integer", nullable: false, optional: true },
    { name: "flag", kind: "boolean", nullable: false, optional: false },
    { name: "extra", kind: "json", nullable: true, optional: false },
  ],
};

/** A table whose rows differ in their text, and in amount and flag together. */
const uniqueTable: EntityTable = {
  ...contractTable,
  entity: "Unique",
  name: "Unique",
  unique: [["text"], ["amount", "flag"]],
  indexes: [["whole"], ["flag", "text"]],
};

const byId: readonly SortKey[] = [{ field: "id", descending: false }];

/** What every store promises about unique values and transactions. */
function describeUniqueness(name: string, open: () => Promise<EntityStore>): void {
  describe(`${name} store, with unique values and transactions`, () => {
    let store: EntityStore;
    beforeEach(async () => {
      store = await open();
      await store.open([contractTable, uniqueTable]);
    });
    afterEach(async () => store.close());

    it("refuses a unique value that another row has, when inserted and when changed", async () => {
      const taken = row("a", { text: "taken", amount: 1, flag: true });
      const free = row("b", { text: "free", amount: 1, flag: false });
      const change = async (...changes: RowChange[]) => store.apply(changes);
      const table = uniqueTable;
      expect(await change({ kind: "insert", table, row: taken }, { kind: "insert", table, row: free })).toEqual({
        ok: true,
      });
      const duplicates: readonly RowChange[] = [
        { kind: "insert", table, row: row("c", { text: "taken", amount: 2, flag: true }) },
        { kind: "insert", table, row: row("c", { text: "other", amount: 1, flag: true }) },
        { kind: "replace", table, expected: free, row: { ...free, text: "taken" } },
        { kind: "replace", table, expected: free, row: { ...free, flag: true } },
      ];
      for (const made of duplicates) {
        expect(await change(made)).toEqual({ ok: false, index: 0, problem: "duplicate" });
      }
      expect(await change({ kind: "replace", table, expected: free, row: { ...free, text: "freer" } })).toEqual({
        ok: true,
      });
    });

    it("does not compare nulls", async () => {
      const rows = ["a", "b"].map((id) => row(id, { text: id, amount: null, flag: true }));
      const inserts = rows.map((one) => ({ kind: "insert", table: uniqueTable, row: one }) as const);
      expect(await store.apply(inserts)).toEqual({ ok: true });
    });

    it("sees the changes of a transaction inside it as it does after its commit", async () => {
      const before = ["a", "b", "c", "d"].map((id, index) => row(id, { text: id, amount: index }));
      await insert(store, before);
      const transaction = beginTransaction(store);
      const [a, b] = before;
      if (a === undefined || b === undefined) throw new TypeError("no rows");
      const table = contractTable;
      await transaction.store.apply([{ kind: "remove", table, expected: a }]);
      await transaction.store.apply([{ kind: "replace", table, expected: b, row: { ...b, amount: 9 } }]);
      await transaction.store.apply([{ kind: "insert", table, row: row("e", { amount: 2 }) }]);
      const queries: readonly RowQuery[] = [
        { where: allRows, sort: byId, after: undefined, limit: 10 },
        { where: allRows, sort: byId, after: ["b"], limit: 2 },
        { where: allRows, sort: [{ field: "amount", descending: true }, ...byId], after: undefined, limit: 3 },
        {
          where: { kind: "compare", field: "amount", operator: "lte", value: 3 },
          sort: byId,
          after: undefined,
          limit: 10,
        },
      ];
      const look = async (of: EntityStore) =>
        Promise.all(queries.map(async (one) => [await of.list(table, one), await of.count(table, one.where)]));
      const inside = await look(transaction.store);
      expect(await all(store)).toEqual(before);
      expect(await transaction.commit()).toEqual({ ok: true });
      expect(await look(store)).toEqual(inside);
    });

    it("makes no change of a transaction when one of its rows has changed meanwhile", async () => {
      await insert(store, [row("a"), row("b")]);
      const transaction = beginTransaction(store);
      const table = contractTable;
      await transaction.store.apply([{ kind: "replace", table, expected: row("a"), row: row("a", { text: "mine" }) }]);
      await transaction.store.apply([{ kind: "remove", table, expected: row("b") }]);
      await store.apply([{ kind: "replace", table, expected: row("a"), row: row("a", { text: "theirs" }) }]);
      expect(await transaction.commit()).toMatchObject({ ok: false, problem: "stale", entity: "Sample" });
      expect((await all(store)).map(({ id, text }) => [id, text])).toEqual([
        ["a", "theirs"],
        ["b", row("b")["text"]],
      ]);
    });
  });
}

/** What every store promises; `open` gives an empty one. */
export function describeStore(name: string, open: () => Promise<EntityStore>): void {
  describeUniqueness(name, open);
  describe(`${name} store`, () => {
    let store: EntityStore;
    beforeEach(async () => {
      store = await open();
      await store.open([contractTable]);
    });
    afterEach(async () => store.close());

    it("gives back what was put in, in every kind of field", async () => {
      const rows = [
        row("a", {
          text: "Åse \"quoted\" 'x'",
          amount: 1.5,
          whole: 9_007_199_254_740_991,
          flag: true,
          extra: { b: [1] },
        }),
        row("b", { text: "", amount: null, flag: false, extra: null }),
      ];
      await insert(store, rows);
      expect(await all(store)).toEqual(rows);
    });

    it("refuses a second record with one key and keeps the first", async () => {
      await insert(store, [row("a", { text: "first" })]);
      const applied = await store.apply([{ kind: "insert", table: contractTable, row: row("a", { text: "second" }) }]);
      expect(applied).toEqual({ ok: false, index: 0, problem: "duplicate" });
      expect((await all(store)).map(({ text }) => text)).toEqual(["first"]);
    });

    it("makes all changes or none", async () => {
      const [a, b] = [row("a"), row("b")];
      await insert(store, [a, b]);
      const applied = await store.apply([
        { kind: "remove", table: contractTable, expected: a },
        { kind: "replace", table: contractTable, expected: b, row: { ...b, text: "new" } },
        { kind: "insert", table: contractTable, row: row("c") },
        { kind: "insert", table: contractTable, row: b },
      ]);
      expect(applied).toEqual({ ok: false, index: 3, problem: "duplicate" });
      expect(await all(store)).toEqual([a, b]);
    });

    it("replaces and removes only what is still as it was read", async () => {
      const before = row("a", { amount: null });
      await insert(store, [before]);
      const change: RowChange = {
        kind: "replace",
        table: contractTable,
        expected: before,
        row: { ...before, amount: 2 },
      };
      expect(await store.apply([change])).toEqual({ ok: true });
      expect(await store.apply([change])).toEqual({ ok: false, index: 0, problem: "stale" });
      const stale: RowChange = { kind: "remove", table: contractTable, expected: before };
      expect(await store.apply([stale])).toEqual({ ok: false, index: 0, problem: "stale" });
      expect(await store.apply([{ ...stale, expected: { ...before, amount: 2 } }])).toEqual({ ok: true });
      expect(await all(store)).toEqual([]);
    });

    it("sorts text by its bytes, null first, and the other way round", async () => {
      const texts = ["b", "B", "a", "ä", "\u{1F600}", "\u{FFFD}", ""];
      await insert(
        store,
        texts.map((text, index) => row(String(index), { text, amount: index % 2 === 0 ? index : null })),
      );
      const up: readonly SortKey[] = [{ field: "text", descending: false }, ...byId];
      const listed = await store.list(contractTable, query({ sort: up }));
      expect(listed.map(({ text }) => text)).toEqual(["", "B", "a", "b", "ä", "\u{FFFD}", "\u{1F600}"]);
      const amounts = await store.list(
        contractTable,
        query({ sort: [{ field: "amount", descending: true }, ...byId] }),
      );
      expect(amounts.map(({ amount }) => amount)).toEqual([6, 4, 2, 0, null, null, null]);
    });

    it("finds and orders as the rules say, for any filter, sort and page", async () => {
      await fc.assert(
        fc.asyncProperty(
          fc.uniqueArray(anyRow, { selector: ({ id }) => id, maxLength: 12 }),
          anyCondition,
          anySort,
          fc.integer({ min: 1, max: 4 }),
          async (rows, where, sort, limit) => {
            await clear(store);
            await insert(store, rows);
            const expected = rows
              .filter((one) => matchesCondition(where, one))
              .toSorted((one, other) => comparePositions(sort, sortPosition(sort, one), sortPosition(sort, other)));
            expect(await store.count(contractTable, where)).toBe(expected.length);
            expect(await pages(store, { where, sort, limit })).toEqual(expected);
          },
        ),
        { numRuns: 60, seed: 20_260_728 },
      );
    });

    it("[KO-014] goes on behind a position although records come in before it", async () => {
      await insert(store, [row("b"), row("d"), row("f")]);
      const first = await store.list(contractTable, query({ limit: 2 }));
      await insert(store, [row("a"), row("e")]);
      const next = await store.list(contractTable, query({ after: sortPosition(byId, first.at(-1) ?? {}) }));
      expect(next.map(({ id }) => id)).toEqual(["e", "f"]);
    });

    it("lets only one of several writers of one record through", async () => {
      const before = row("a", { amount: 0 });
      await insert(store, [before]);
      const writers = Array.from({ length: 8 }, (_, amount) => ({ ...before, amount: amount + 1 }));
      const outcomes = await Promise.all(
        writers.map(async (next) =>
          store.apply([{ kind: "replace", table: contractTable, expected: before, row: next }]),
        ),
      );
      expect(outcomes.filter(({ ok }) => ok)).toHaveLength(1);
    });

    it("adds a field that an older table does not have", async () => {
      await insert(store, [row("a")]);
      const wider: EntityTable = {
        ...contractTable,
        fields: [...contractTable.fields, { name: "later", kind: "string", nullable: true, optional: false }],
      };
      await reopen(store, wider);
      expect((await store.list(contractTable, query({}))).map(({ id }) => id)).toEqual(["a"]);
    });

    it("says that it works", async () => {
      await expect(store.check()).resolves.toBeUndefined();
    });
  });
}

async function reopen(store: EntityStore, table: EntityTable): Promise<void> {
  await store.open([table]);
}

function row(id: string, more: Readonly<Record<string, Row[string]>> = {}): Row {
  return { id, text: `text of ${id}`, amount: 1, flag: false, extra: null, ...more };
}

function query(given: Partial<RowQuery>): RowQuery {
  return { where: allRows, sort: byId, after: undefined, limit: 100, ...given };
}

async function all(store: EntityStore): Promise<readonly Row[]> {
  return store.list(contractTable, query({}));
}

async function insert(store: EntityStore, rows: readonly Row[]): Promise<void> {
  const applied = await store.apply(rows.map((one) => ({ kind: "insert", table: contractTable, row: one })));
  expect(applied).toEqual({ ok: true });
}

async function clear(store: EntityStore): Promise<void> {
  const rows = await all(store);
  await store.apply(rows.map((expected) => ({ kind: "remove", table: contractTable, expected })));
}

async function pages(
  store: EntityStore,
  { where, sort, limit }: Pick<RowQuery, "where" | "sort" | "limit">,
): Promise<readonly Row[]> {
  const found: Row[] = [];
  let after: readonly (Scalar | null)[] | undefined;
  for (;;) {
    const page = await store.list(contractTable, { where, sort, after, limit });
    found.push(...page);
    const last = page.at(-1);
    if (last === undefined || page.length < limit) return found;
    after = sortPosition(sort, last);
  }
}

const anyText = fc.constantFrom("", "a", "A", "ab", "b%", "_", "ä", "\u{1F600}");
const anyNumber = fc.constantFrom(-1.5, 0, 1, 2, 1e21);
const anyWhole = fc.constantFrom(-3, 0, 1, 7);

const anyRow = fc
  .record({
    id: fc.constantFrom("0", "1", "2", "3", "4", "5", "6", "7", "8", "9", "x", "Y"),
    text: anyText,
    amount: fc.option(anyNumber),
    whole: fc.option(anyWhole, { nil: undefined }),
    flag: fc.boolean(),
  })
  .map(({ whole, ...rest }): Row => ({ ...rest, ...(whole === undefined ? {} : { whole }), extra: null }));

const anyOperator = fc.constantFrom("eq", "ne", "gt", "gte", "lt", "lte");

const anyTerm: fc.Arbitrary<RowCondition> = fc.oneof(
  fc.record({
    kind: fc.constant("compare"),
    field: fc.constant("text"),
    operator: anyOperator,
    value: anyText,
  }),
  fc.record({
    kind: fc.constant("compare"),
    field: fc.constant("amount"),
    operator: anyOperator,
    value: anyNumber,
  }),
  fc.record({
    kind: fc.constant("compare"),
    field: fc.constant("whole"),
    operator: anyOperator,
    value: anyWhole,
  }),
  fc.record({
    kind: fc.constant("compare"),
    field: fc.constant("flag"),
    operator: fc.constantFrom("eq", "ne"),
    value: fc.boolean(),
  }),
  fc.record({
    kind: fc.constant("in"),
    field: fc.constant("whole"),
    values: fc.array(anyWhole, { maxLength: 3 }),
  }),
  fc.record({ kind: fc.constantFrom("contains", "startsWith"), field: fc.constant("text"), value: anyText }),
  fc.record({ kind: fc.constant("isNull"), field: fc.constantFrom("amount", "whole"), value: fc.boolean() }),
  fc.constant(allRows),
);

const anyCondition: fc.Arbitrary<RowCondition> = fc.oneof(
  anyTerm,
  fc.record({ kind: fc.constantFrom("and", "or"), parts: fc.array(anyTerm, { maxLength: 3 }) }),
  anyTerm.map((part): RowCondition => ({ kind: "not", part })),
);

const anySort: fc.Arbitrary<readonly SortKey[]> = fc
  .uniqueArray(fc.record({ field: fc.constantFrom("text", "amount", "whole", "flag"), descending: fc.boolean() }), {
    selector: ({ field }) => field,
    maxLength: 2,
  })
  .map((keys) => [...keys, ...byId]);
