import type { z } from "zod";

import type { Clock, Principal } from "../../core/exchange.ts";
import type { Logger } from "../../telemetry/log.ts";
import { type FieldValues, toFieldIssues } from "./arguments.ts";
import type { Cursors } from "./cursor.ts";
import type { Entity } from "./entity.ts";
import { invalidArguments, kitFailure, notFound } from "../contract/failure.ts";
import { type FilterOf, parseEntityFilter } from "./filter.ts";
import { defaultOf } from "../contract/fields.ts";
import { isScalar, type JsonObject, type JsonValue, type Row, type Scalar } from "../contract/row.ts";
import {
  allRows,
  type EntityStore,
  type EntityTable,
  type RowChange,
  type RowCondition,
  type SortKey,
  sortPosition,
} from "../stores/store.ts";

/** Who asks, as far as records care. */
export interface RecordContext {
  readonly principal: Principal;
  readonly signal: AbortSignal;
  readonly log: Logger;
  /** The host's own code, which `visibleTo` does not bind. */
  readonly bypassesVisibility?: true;
}

/** What records are made of besides their entity. */
export interface RecordDeps {
  readonly store: EntityStore;
  readonly cursors: Cursors;
  readonly clock: Clock;
  readonly newUuid: () => string;
}

/** A list, as far as it has been checked. */
export interface ListRequest {
  readonly where: RowCondition;
  readonly filter: JsonValue | undefined;
  readonly sort: readonly SortKey[];
  readonly cursor: string | undefined;
  readonly pageSize: number;
  readonly includeTotal: boolean;
}

/** A change of a record that exists. */
export interface UpdateRequest {
  readonly key: JsonValue;
  readonly given: FieldValues;
  readonly expectedVersion: number | undefined;
}

/** The records of one entity: reading and changing them under the entity's rules, for a caller. */
export interface Records {
  readonly entity: Entity;
  list(request: ListRequest, caller: RecordContext): Promise<JsonObject>;
  count(where: RowCondition, caller: RecordContext): Promise<number>;
  get(key: JsonValue, caller: RecordContext): Promise<Row>;
  create(given: readonly FieldValues[], caller: RecordContext): Promise<readonly Row[]>;
  update(requests: readonly UpdateRequest[], caller: RecordContext): Promise<readonly Row[]>;
  upsert(key: JsonValue, given: FieldValues, caller: RecordContext): Promise<Row>;
  remove(requests: readonly Omit<UpdateRequest, "given">[], caller: RecordContext): Promise<void>;
  removeWhere(where: RowCondition, max: number, caller: RecordContext): Promise<number>;
  /** What a new record would have without anything given. */
  defaults(): Row;
}

// Only another writer in the same instant makes one needed; five of them in a row is a conflict.
const maxAttempts = 5;

/** The table of an entity, as stores see it. */
export function tableOf(entity: Entity): EntityTable {
  return {
    entity: entity.name,
    name: entity.name,
    key: entity.key.name,
    fields: [...entity.fields.values()],
    mapping: entity.options.table,
  };
}

/** Records of an entity in a store. */
export function createRecords(entity: Entity, { store, cursors, clock, newUuid }: RecordDeps): Records {
  const table = tableOf(entity);
  const { hooks } = entity.options;
  const keySort: readonly SortKey[] = [{ field: entity.key.name, descending: false }];
  return {
    entity,
    list: async (request, caller) => {
      const sort = request.sort.some(({ field }) => field === entity.key.name)
        ? request.sort
        : [...request.sort, ...keySort];
      const scope = { entity: entity.name, sort: sort.map(sortText), filter: request.filter };
      const position = request.cursor === undefined ? undefined : cursors.read(scope, request.cursor);
      if (request.cursor !== undefined && position === undefined) {
        throw invalidArguments([
          {
            path: "cursor",
            message: "is no cursor of this list; repeat filter and sort, or start without one",
          },
        ]);
      }
      const where = visible(request.where, caller);
      // One more than asked for tells whether there is another page.
      const found = await store.list(table, { where, sort, after: position, limit: request.pageSize + 1 });
      const items = found.slice(0, request.pageSize);
      const last = found.length > items.length ? items.at(-1) : undefined;
      return {
        items,
        ...(last === undefined ? {} : { nextCursor: cursors.write(scope, sortPosition(sort, last)) }),
        ...(request.includeTotal ? { total: await store.count(table, where) } : {}),
      };
    },
    count: async (where, caller) => store.count(table, visible(where, caller)),
    get: find,
    create: async (given, caller) => {
      const rows: Row[] = [];
      for (const fields of given) rows.push(await prepareNew(fields, caller));
      await commit(rows.map((row) => ({ kind: "insert", table, row })));
      for (const record of rows) await after("create", record, caller);
      return rows;
    },
    update: async (requests, caller) =>
      persist(async () => {
        const changes: Extract<RowChange, { kind: "replace" }>[] = [];
        for (const request of requests) changes.push(await prepareChange(request, caller));
        return changes;
      }, caller),
    upsert: async (key, given, caller) => {
      const [existing] = await store.list(table, {
        where: hasKey(key),
        sort: keySort,
        after: undefined,
        limit: 1,
      });
      if (existing === undefined) {
        const row = await prepareNew(new Map([...given, [entity.key.name, key]]), caller);
        await commit([{ kind: "insert", table, row }]);
        await after("create", row, caller);
        return row;
      }
      const [row] = await persist(async () => {
        // A record that the caller cannot see is not there for it, and cannot be made either.
        const before = await find(key, caller);
        return [await replacing(before, { ...kept(before), ...Object.fromEntries(defined(given)) }, caller)];
      }, caller);
      return row ?? existing;
    },
    remove: async (requests, caller) => {
      const rows: Row[] = [];
      for (const { key, expectedVersion } of requests) {
        const row = await find(key, caller);
        checkVersion(row, expectedVersion);
        await hooks.beforeDelete?.(row, caller);
        rows.push(row);
      }
      await commit(rows.map((expected) => ({ kind: "remove", table, expected })));
      for (const record of rows) await after("delete", record, caller);
    },
    removeWhere: async (where, max, caller) => {
      const rows = await store.list(table, {
        where: visible(where, caller),
        sort: keySort,
        after: undefined,
        limit: max + 1,
      });
      if (rows.length > max) {
        throw kitFailure("conflict", `the filter matches more than ${max} records; narrow it or raise max`);
      }
      for (const row of rows) await hooks.beforeDelete?.(row, caller);
      await commit(rows.map((expected) => ({ kind: "remove", table, expected })));
      for (const record of rows) await after("delete", record, caller);
      return rows.length;
    },
    defaults: () =>
      Object.fromEntries(
        [...entity.fields.values()].flatMap((field) => {
          const value = entity.generated.has(field.name) ? undefined : defaultOf(field);
          return value === undefined ? [] : [[field.name, value]];
        }),
      ),
  };

  async function find(key: JsonValue, caller: RecordContext): Promise<Row> {
    const where = visible(hasKey(key), caller);
    const [row] = await store.list(table, { where, sort: keySort, after: undefined, limit: 1 });
    if (row === undefined) throw notFound(entity.name);
    return row;
  }

  async function prepareNew(given: FieldValues, caller: RecordContext): Promise<Row> {
    const row: Record<string, JsonValue> = Object.fromEntries(defined(given));
    for (const [field, generator] of entity.generated) row[field] ??= generated(generator);
    if (entity.version !== undefined) row[entity.version] = 1;
    const checked = check(row);
    const replaced = await hooks.beforeCreate?.(checked, caller);
    return replaced === undefined ? checked : check(replaced);
  }

  async function prepareChange(request: UpdateRequest, caller: RecordContext) {
    const before = await find(request.key, caller);
    checkVersion(before, request.expectedVersion);
    const next: Record<string, JsonValue> = { ...before };
    for (const [name, value] of request.given) {
      if (value === undefined) delete next[name];
      else next[name] = value;
    }
    return replacing(before, next, caller);
  }

  async function replacing(
    before: Row,
    wanted: Row,
    caller: RecordContext,
  ): Promise<Extract<RowChange, { kind: "replace" }>> {
    const next: Record<string, JsonValue> = { ...wanted };
    for (const [field, generator] of entity.generated) {
      if (generator === "updatedAt") next[field] = generated(generator);
    }
    if (entity.version !== undefined) next[entity.version] = Number(before[entity.version] ?? 0) + 1;
    const checked = check(next);
    const replaced = await hooks.beforeUpdate?.(checked, before, caller);
    const row = replaced === undefined ? checked : check(replaced);
    return { kind: "replace", table, expected: before, row };
  }

  /** Reads, changes and writes again until nobody was quicker. */
  async function persist(
    prepare: () => Promise<readonly Extract<RowChange, { kind: "replace" }>[]>,
    caller: RecordContext,
  ): Promise<readonly Row[]> {
    for (let attempt = 1; ; attempt++) {
      const changes = await prepare();
      caller.signal.throwIfAborted();
      const applied = await store.apply(changes);
      if (applied.ok) {
        for (const { row } of changes) await after("update", row, caller);
        return changes.map(({ row }) => row);
      }
      if (attempt === maxAttempts) throw changedMeanwhile();
    }
  }

  async function commit(changes: readonly RowChange[]): Promise<void> {
    if (changes.length === 0) return;
    const applied = await store.apply(changes);
    if (applied.ok) return;
    if (applied.problem === "stale") throw changedMeanwhile();
    throw kitFailure("conflict", `a ${entity.name} with this ${entity.key.name} exists already`);
  }

  function changedMeanwhile(): Error {
    return kitFailure("conflict", `the ${entity.name} was changed meanwhile; get it again and repeat`);
  }

  function checkVersion(row: Row, expected: number | undefined): void {
    if (expected === undefined || entity.version === undefined) return;
    const current = row[entity.version];
    if (current === expected) return;
    throw kitFailure(
      "version_mismatch",
      `the ${entity.name} has version ${JSON.stringify(current)}, not ${expected}; get it again and repeat`,
    );
  }

  /** The whole record by the whole schema, with rules between fields; null and absent as every store keeps them. */
  function check(row: Row): Row {
    const parsed = entity.schema.safeParse(row);
    if (!parsed.success) throw invalidArguments(toFieldIssues(parsed.error.issues));
    const checked: Record<string, JsonValue> = {};
    for (const field of entity.fields.values()) {
      // The fields' schemas have said that JSON can carry them.
      const value = parsed.data[field.name] as JsonValue | undefined;
      if (value !== undefined) checked[field.name] = value;
      else if (field.nullable) checked[field.name] = null;
    }
    return checked;
  }

  /** What a replaced record keeps: everything that clients cannot send. */
  function kept(before: Row): Row {
    return Object.fromEntries(
      Object.entries(before).filter(
        ([name]) =>
          name === entity.key.name ||
          name === entity.version ||
          entity.generated.has(name) ||
          entity.readOnly.has(name) ||
          entity.hidden.has(name),
      ),
    );
  }

  function visible(where: RowCondition, { principal, bypassesVisibility: seesAll }: RecordContext): RowCondition {
    const filter = seesAll === true ? undefined : entity.options.visibleTo?.(principal);
    if (filter === undefined) return where;
    const parsed = parseEntityFilter(filter, [...entity.fields.values()], "visibleTo");
    if (!parsed.ok) throw new TypeError(`entity ${entity.name}: ${JSON.stringify(parsed.issues)}`);
    return { kind: "and", parts: [where, parsed.condition] };
  }

  function hasKey(value: JsonValue): RowCondition {
    return isScalar(value)
      ? { kind: "compare", field: entity.key.name, operator: "eq", value }
      : { kind: "not", part: allRows };
  }

  async function after(operation: "create" | "update" | "delete", record: Row, caller: RecordContext): Promise<void> {
    try {
      await hooks.afterChange?.({ operation, record }, caller);
    } catch (error) {
      // The change is made; the caller has to hear that and nothing else.
      const reason = error instanceof Error ? error.message : String(error);
      caller.log.error({ entity: entity.name, operation, reason }, "the afterChange hook failed");
    }
  }

  function generated(generator: "uuid" | "createdAt" | "updatedAt"): Scalar {
    return generator === "uuid" ? newUuid() : new Date(clock.wall()).toISOString();
  }
}

function defined(given: FieldValues): readonly (readonly [string, JsonValue])[] {
  return [...given].flatMap(([name, value]) => (value === undefined ? [] : [[name, value] as const]));
}

/** A sort key as clients write it. */
function sortText({ field, descending }: SortKey): string {
  return descending ? `-${field}` : field;
}

/** The records of an entity for the host's own code, with the types of its schema. */
export interface TypedRecords<Schema extends z.ZodObject> {
  /** What is generated may be left out, or be given. */
  create(record: Partial<z.input<Schema>>): Promise<z.output<Schema>>;
  /** Rejects if there is none. */
  get(key: string | number): Promise<z.output<Schema>>;
  list(filter?: FilterOf<z.output<Schema>>, limit?: number): Promise<readonly z.output<Schema>[]>;
  count(filter?: FilterOf<z.output<Schema>>): Promise<number>;
}

const hostPrincipal: Principal = { id: "host", kind: "key", scopes: new Set(), claims: {} };

/** Records that the host reads and makes itself; rows have passed the schema, which is what the types say. */
export function createTypedRecords<Schema extends z.ZodObject>(
  entity: Entity<Schema>,
  records: Records,
  log: Logger,
): TypedRecords<Schema> {
  const caller = {
    principal: hostPrincipal,
    signal: new AbortController().signal,
    log,
    bypassesVisibility: true as const,
  };
  const typed = (row: Row): z.output<Schema> => row as z.output<Schema>;
  const conditionOf = (filter: FilterOf<z.output<Schema>> | undefined) => {
    if (filter === undefined) return allRows;
    const parsed = parseEntityFilter(filter, [...entity.fields.values()]);
    if (!parsed.ok) throw invalidArguments(parsed.issues);
    return parsed.condition;
  };
  return {
    create: async (record) => {
      const given = new Map(Object.entries(record as Readonly<Record<string, JsonValue | undefined>>));
      const [row] = await records.create([given], caller);
      return typed(row ?? {});
    },
    get: async (key) => typed(await records.get(key, caller)),
    list: async (filter, limit = 1000) => {
      const page = await records.list(
        {
          where: conditionOf(filter),
          filter: undefined,
          sort: [],
          cursor: undefined,
          pageSize: limit,
          includeTotal: false,
        },
        caller,
      );
      // A page is made of rows; only its member `items` holds any.
      return (page["items"] as readonly Row[]).map(typed);
    },
    count: async (filter) => records.count(conditionOf(filter), caller),
  };
}
