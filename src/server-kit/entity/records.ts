import type { Clock, Principal } from "../../core/exchange.ts";
import { thrownMessage } from "../../lib/thrown-message.ts";
import type { Logger } from "../../telemetry/log.ts";
import {
  allRows,
  type EntityStore,
  type EntityTable,
  isScalar,
  isStorable,
  type JsonValue,
  matchesCondition,
  notStorable,
  type Row,
  type RowChange,
  type RowCondition,
  type SortKey,
  sortPosition,
} from "../stores/store.ts";
import { type FieldValues, toFieldIssues } from "./arguments.ts";
import { type Cursors, parseEntityFilter } from "./filter.ts";
import { type EntityModel, type FieldGenerator, isWritable } from "./entity.ts";
import { invalidArguments, kitFailure, notFound } from "./failure.ts";
import { defaultOf } from "./fields.ts";
import type { Turns } from "./turns.ts";

/** The caller of an operation. */
export interface RecordContext {
  readonly principal: Principal;
  readonly signal: AbortSignal;
  readonly log: Logger;
  /** Set for the host's own code, which `visibleTo` does not restrict. */
  readonly bypassesVisibility?: true;
}

/** What all records share. */
export interface RecordDeps {
  readonly store: EntityStore;
  readonly cursors: Cursors;
  readonly clock: Clock;
  readonly newUuid: () => string;
  /** Repeats changes that have lost against another writer. */
  readonly turns: Turns;
  /** Runs what follows a stored change; inside a transaction it waits for the commit. Default: at once. */
  readonly afterCommit?: (run: () => Promise<void>) => Promise<void>;
}

/** A validated list request. */
export interface ListRequest {
  readonly where: RowCondition;
  readonly filter: JsonValue | undefined;
  readonly sort: readonly SortKey[];
  readonly cursor: string | undefined;
  readonly pageSize: number;
  readonly includeTotal: boolean;
}

/** One page of a list. */
export interface RecordPage {
  readonly items: readonly Row[];
  readonly nextCursor?: string;
  readonly total?: number;
}

/** A change of an existing record. */
export interface UpdateRequest {
  readonly key: JsonValue;
  readonly given: FieldValues;
  readonly expectedVersion: number | undefined;
}

/** Reads and changes the records of one entity, under its rules and for a caller. */
export interface Records {
  readonly entity: EntityModel;
  list(request: ListRequest, caller: RecordContext): Promise<RecordPage>;
  count(where: RowCondition, caller: RecordContext): Promise<number>;
  get(key: JsonValue, caller: RecordContext): Promise<Row>;
  create(given: readonly FieldValues[], caller: RecordContext): Promise<readonly Row[]>;
  update(requests: readonly UpdateRequest[], caller: RecordContext): Promise<readonly Row[]>;
  upsert(key: JsonValue, given: FieldValues, caller: RecordContext): Promise<Row>;
  remove(requests: readonly Omit<UpdateRequest, "given">[], caller: RecordContext): Promise<void>;
  removeWhere(where: RowCondition, max: number, caller: RecordContext): Promise<number>;
  /** The defaults of a new record. */
  defaults(): Row;
}

// An update is repeated when another writer was faster; after this many times it is a conflict. Writers of this process
// repeat in turns, so this is about those of others and about changes that have not lost yet.
export const maxAttempts = 20;

/** The table of an entity, as stores see it. */
export function tableOf(entity: EntityModel): EntityTable {
  return {
    entity: entity.name,
    name: entity.name,
    key: entity.key.name,
    fields: [...entity.fields.values()],
    unique: entity.unique,
    indexes: entity.indexes,
    mapping: entity.options.table,
  };
}

/** Makes the changes of an entity, again where another writer was faster, and calls the hooks that follow them. */
function createWriter(entity: EntityModel, deps: RecordDeps) {
  const { store } = deps;
  const table = tableOf(entity);

  async function insert(created: readonly Row[], caller: RecordContext): Promise<void> {
    if (created.length > 0 && !(await tryApply(created.map((row) => ({ kind: "insert", table, row })))))
      throw changedMeanwhile(entity);
    for (const row of created) await notify("create", row, caller);
  }

  /** Repeats a change until no other writer was faster; `attempt` answers nothing when one was. */
  async function insist<Result>(attempt: () => Promise<Result | undefined>): Promise<Result> {
    const first = await attempt();
    if (first !== undefined) return first;
    return deps.turns(entity.name, async () => {
      for (let count = 2; count <= maxAttempts; count++) {
        const repeated = await attempt();
        if (repeated !== undefined) return repeated;
      }
      throw changedMeanwhile(entity);
    });
  }

  /** Removes what is found. */
  async function removeAll(search: () => Promise<readonly Row[]>, caller: RecordContext): Promise<readonly Row[]> {
    const removed = await insist(async () => {
      const doomed = await search();
      for (const row of doomed) await entity.options.hooks?.beforeDelete?.(row, caller);
      caller.signal.throwIfAborted();
      const isDone =
        doomed.length === 0 || (await tryApply(doomed.map((expected) => ({ kind: "remove", table, expected }))));
      return isDone ? doomed : undefined;
    });
    for (const row of removed) await notify("delete", row, caller);
    return removed;
  }

  /** Changes what is read. */
  async function replaceAll(
    prepare: () => Promise<readonly { readonly expected: Row; readonly row: Row }[]>,
    caller: RecordContext,
  ): Promise<readonly Row[]> {
    const replaced = await insist(async () => {
      const prepared = await prepare();
      caller.signal.throwIfAborted();
      const isDone = await tryApply(prepared.map((one) => ({ kind: "replace", table, ...one })));
      return isDone ? prepared.map(({ row }) => row) : undefined;
    });
    for (const row of replaced) await notify("update", row, caller);
    return replaced;
  }

  /** Whether the changes were made; not if another writer was faster. */
  async function tryApply(changes: readonly RowChange[]): Promise<boolean> {
    const applied = await store.apply(changes);
    if (!applied.ok && applied.problem === "duplicate") throw duplicate(entity);
    return applied.ok;
  }

  const notify = async (operation: "create" | "update" | "delete", row: Row, caller: RecordContext): Promise<void> => {
    const run = async (): Promise<void> => notifyHook(entity, operation, row, caller);
    await (deps.afterCommit === undefined ? run() : deps.afterCommit(run));
  };

  return { insert, removeAll, replaceAll, notify };
}

/** The records of an entity in a store. */
export function createRecords(entity: EntityModel, deps: RecordDeps): Records {
  const { store, cursors } = deps;
  const table = tableOf(entity);
  const rows = createRowBuilder(entity, deps);
  const { insert, removeAll, replaceAll, notify } = createWriter(entity, deps);
  const keySort: readonly SortKey[] = [{ field: entity.key.name, descending: false }];

  const first = async (where: RowCondition): Promise<Row | undefined> =>
    (await store.list(table, { where, sort: keySort, after: undefined, limit: 1 }))[0];

  async function find(key: JsonValue, caller: RecordContext): Promise<Row> {
    const row = await first(visible(entity, hasKey(entity, key), caller));
    if (row === undefined) throw notFound(entity.name);
    return row;
  }

  return {
    entity,
    list: async (request, caller) => {
      const hasKeySort = request.sort.some(({ field }) => field === entity.key.name);
      const sort = hasKeySort ? request.sort : [...request.sort, ...keySort];
      const scope = { entity: entity.name, sort: sort.map(formatSortKey), filter: request.filter };
      const after = request.cursor === undefined ? undefined : cursors.read(scope, request.cursor);
      if (request.cursor !== undefined && after === undefined) {
        throw invalidArguments([
          { path: "cursor", message: "not a cursor of this list; repeat filter and sort, or omit it" },
        ]);
      }
      const where = visible(entity, request.where, caller);
      // One more than requested shows whether there is another page.
      const found = await store.list(table, { where, sort, after, limit: request.pageSize + 1 });
      const items = found.slice(0, request.pageSize);
      const last = found.length > items.length ? items.at(-1) : undefined;
      return {
        items,
        ...(last === undefined ? {} : { nextCursor: cursors.write(scope, sortPosition(sort, last)) }),
        ...(request.includeTotal ? { total: await store.count(table, where) } : {}),
      };
    },
    count: async (where, caller) => store.count(table, visible(entity, where, caller)),
    get: find,
    create: async (given, caller) => {
      const created: Row[] = [];
      for (const values of given) created.push(await rows.create(values, caller));
      await insert(created, caller);
      return created;
    },
    update: async (requests, caller) =>
      replaceAll(async () => {
        const replaced: { readonly expected: Row; readonly row: Row }[] = [];
        for (const { key, given, expectedVersion } of requests) {
          const expected = await find(key, caller);
          checkVersion(entity, expected, expectedVersion);
          replaced.push({ expected, row: await rows.update(expected, given, caller) });
        }
        return replaced;
      }, caller),
    upsert: async (key, given, caller) => {
      // Looks at all records: one that the caller cannot see must not be created again.
      const exists = async (): Promise<boolean> => (await first(hasKey(entity, key))) !== undefined;
      if (!(await exists())) {
        const row = await rows.create(new Map([...given, [entity.key.name, key]]), caller);
        const applied = await store.apply([{ kind: "insert", table, row }]);
        if (applied.ok) {
          await notify("create", row, caller);
          return row;
        }
        // Another writer may have created it meanwhile; otherwise another record has one of its unique values.
        if (!(await exists())) throw duplicate(entity);
      }
      const [row] = await replaceAll(async () => {
        const expected = await find(key, caller);
        return [{ expected, row: await rows.replace(expected, given, caller) }];
      }, caller);
      return row ?? {};
    },
    remove: async (requests, caller) => {
      await removeAll(async () => {
        const doomed: Row[] = [];
        for (const { key, expectedVersion } of requests) {
          const row = await find(key, caller);
          checkVersion(entity, row, expectedVersion);
          doomed.push(row);
        }
        return doomed;
      }, caller);
    },
    removeWhere: async (condition, max, caller) => {
      const where = visible(entity, condition, caller);
      const removed = await removeAll(async () => {
        const doomed = await store.list(table, { where, sort: keySort, after: undefined, limit: max + 1 });
        if (doomed.length <= max) return doomed;
        throw kitFailure("conflict", `the filter matches more than ${max} records; narrow it or raise max`);
      }, caller);
      return removed.length;
    },
    defaults: () => defaultsOf(entity),
  };
}

/** The failure of a change whose record has changed since it was read. */
export function changedMeanwhile(entity: EntityModel): Error {
  return kitFailure("conflict", `the ${entity.name} has changed in the meantime; get it again and retry`);
}

/** The failure of a record whose key or unique values another one has. */
export function duplicate({ name, key, unique }: EntityModel): Error {
  const groups = [[key.name], ...unique].map((group) => group.join(" and "));
  return kitFailure("conflict", `another ${name} has this ${groups.join(" or ")} already`);
}

function defaultsOf(entity: EntityModel): Row {
  return Object.fromEntries(
    [...entity.fields.values()].flatMap((field) => {
      const value = entity.generated.has(field.name) ? undefined : defaultOf(field);
      return value === undefined ? [] : [[field.name, value]];
    }),
  );
}

function createRowBuilder(entity: EntityModel, { clock, newUuid }: RecordDeps) {
  const { hooks } = entity.options;
  const generate = (generator: FieldGenerator): string =>
    generator === "uuid" ? newUuid() : new Date(clock.wall()).toISOString();

  async function change(before: Row, changed: Row, caller: RecordContext): Promise<Row> {
    const next: Record<string, JsonValue> = { ...changed };
    for (const [field, generator] of entity.generated) {
      if (generator === "updatedAt") next[field] = generate(generator);
    }
    if (entity.version !== undefined) next[entity.version] = Number(before[entity.version] ?? 0) + 1;
    const row = validate(entity, next);
    const replaced = await hooks?.beforeUpdate?.(row, before, caller);
    return requireVisible(entity, replaced === undefined ? row : validate(entity, replaced), caller);
  }

  return {
    create: async (given: FieldValues, caller: RecordContext): Promise<Row> => {
      const next = withValues({}, given);
      for (const [field, generator] of entity.generated) next[field] ??= generate(generator);
      if (entity.version !== undefined) next[entity.version] = 1;
      const row = validate(entity, next);
      const replaced = await hooks?.beforeCreate?.(row, caller);
      return requireVisible(entity, replaced === undefined ? row : validate(entity, replaced), caller);
    },
    /** Changes only the given fields. */
    update: async (before: Row, given: FieldValues, caller: RecordContext): Promise<Row> =>
      change(before, withValues(before, given), caller),
    /** Replaces everything that clients can send. */
    replace: async (before: Row, given: FieldValues, caller: RecordContext): Promise<Row> => {
      const kept = Object.entries(before).filter(([name]) => name === entity.key.name || !isWritable(entity, name));
      return change(before, withValues(Object.fromEntries(kept), given), caller);
    },
  };
}

function withValues(row: Row, given: FieldValues): Record<string, JsonValue> {
  const next: Record<string, JsonValue> = { ...row };
  for (const [name, value] of given) {
    if (value === undefined) delete next[name];
    else next[name] = value;
  }
  return next;
}

/** Applies the whole schema, with rules between fields, and normalizes null and absent as every store does. */
function validate(entity: EntityModel, record: Readonly<Record<string, unknown>>): Row {
  requireStorable(record);
  const parsed = entity.schema.safeParse(record);
  if (!parsed.success) throw invalidArguments(toFieldIssues(parsed.error.issues));
  const row: Record<string, JsonValue> = {};
  for (const field of entity.fields.values()) {
    // Every field's schema produces JSON.
    const value = parsed.data[field.name] as JsonValue | undefined;
    if (value !== undefined) row[field.name] = value;
    else if (field.nullable) row[field.name] = null;
  }
  // The schema may have changed values.
  requireStorable(row);
  return row;
}

function requireStorable(record: Readonly<Record<string, unknown>>): void {
  const unstorable = Object.entries(record).filter(([, value]) => !isStorable(value));
  if (unstorable.length > 0) throw invalidArguments(unstorable.map(([path]) => ({ path, message: notStorable })));
}

/** Throws unless the caller could see the record that it stores, so that it cannot act in the name of another caller. */
function requireVisible(entity: EntityModel, row: Row, caller: RecordContext): Row {
  if (matchesCondition(visible(entity, allRows, caller), row)) return row;
  throw kitFailure("forbidden", `you may not store a ${entity.name} that you could not see`);
}

function checkVersion(entity: EntityModel, row: Row, expected: number | undefined): void {
  if (expected === undefined || entity.version === undefined) return;
  const current = row[entity.version];
  if (current === expected) return;
  throw kitFailure(
    "version_mismatch",
    `the ${entity.name} has version ${JSON.stringify(current)}, not ${expected}; get it again and retry`,
  );
}

/** Restricts a condition to what the caller can see. */
function visible(entity: EntityModel, where: RowCondition, caller: RecordContext): RowCondition {
  const filter = caller.bypassesVisibility === true ? undefined : entity.options.visibleTo?.(caller.principal);
  if (filter === undefined) return where;
  const parsed = parseEntityFilter(filter, [...entity.fields.values()], "visibleTo");
  if (!parsed.ok) throw new TypeError(`entity ${entity.name}: ${JSON.stringify(parsed.issues)}`);
  return { kind: "and", parts: [where, parsed.condition] };
}

function hasKey(entity: EntityModel, value: JsonValue): RowCondition {
  return isScalar(value)
    ? { kind: "compare", field: entity.key.name, operator: "eq", value }
    : { kind: "not", part: allRows };
}

async function notifyHook(
  entity: EntityModel,
  operation: "create" | "update" | "delete",
  record: Row,
  caller: RecordContext,
): Promise<void> {
  try {
    await entity.options.hooks?.afterChange?.({ operation, record }, caller);
  } catch (error) {
    // The change is stored, so the call succeeds.
    const reason = thrownMessage(error);
    caller.log.error({ entity: entity.name, operation, reason }, "the afterChange hook failed");
  }
}

/** A sort key as clients write it. */
function formatSortKey({ field, descending }: SortKey): string {
  return descending ? `-${field}` : field;
}
