import type { z } from "zod";

import type { Principal } from "../../core/exchange.ts";
import type { Logger } from "../../telemetry/log.ts";
import { allRows, type JsonValue, type Row, type RowCondition } from "../stores/store.ts";
import type { FieldValues } from "./arguments.ts";
import { type Entity, modelOf } from "./entity.ts";
import { invalidArguments } from "./failure.ts";
import { type FilterOf, parseEntityFilter } from "./filter.ts";
import type { RecordContext, Records } from "./records.ts";

/** The version that a change expects, for entities with the option `version`. */
export interface ExpectedVersion {
  readonly expectedVersion?: number;
}

/** The records of an entity for the host's own code, with the types of its schema. */
export interface TypedRecords<Schema extends z.ZodObject> {
  /** Generated fields may be omitted. */
  create(record: Partial<z.input<Schema>>): Promise<z.output<Schema>>;
  /** Rejects if there is no such record. */
  get(key: string | number): Promise<z.output<Schema>>;
  /** Changes the given fields; undefined removes an optional one. Rejects if there is no such record. */
  update(key: string | number, changes: Partial<z.input<Schema>>, options?: ExpectedVersion): Promise<z.output<Schema>>;
  /** Rejects if there is no such record. */
  delete(key: string | number, options?: ExpectedVersion): Promise<void>;
  /** All records that match, or the first `limit` of them. */
  list(filter?: FilterOf<z.output<Schema>>, limit?: number): Promise<readonly z.output<Schema>[]>;
  /** All records that match, read page by page in the order of their keys. */
  each(filter?: FilterOf<z.output<Schema>>): AsyncIterable<z.output<Schema>>;
  count(filter?: FilterOf<z.output<Schema>>): Promise<number>;
  /** The same records as a caller sees and may change them, by the entity's `visibleTo`. */
  as(principal: Principal): TypedRecords<Schema>;
}

const hostPrincipal: Principal = { id: "host", kind: "key", scopes: new Set(), claims: {} };
const pageSize = 500;

/** Records for the host's own code: the same schema and hooks, but no restriction to visible rows. */
export function createTypedRecords<Schema extends z.ZodObject>(
  entity: Entity<Schema>,
  records: Records,
  log: Logger,
): TypedRecords<Schema> {
  const { signal } = new AbortController();
  return forCaller({ principal: hostPrincipal, signal, log, bypassesVisibility: true });

  function forCaller(caller: RecordContext): TypedRecords<Schema> {
    return {
      create: async (record) => typed((await records.create([valuesOf(record)], caller))[0]),
      get: async (key) => typed(await records.get(key, caller)),
      update: async (key, changes, { expectedVersion } = {}) =>
        typed((await records.update([{ key, given: valuesOf(changes), expectedVersion }], caller))[0]),
      delete: async (key, { expectedVersion } = {}) => records.remove([{ key, expectedVersion }], caller),
      list: async (filter, limit = Number.POSITIVE_INFINITY) => {
        const found: z.output<Schema>[] = [];
        for await (const record of read(filter, caller, limit)) found.push(record);
        return found;
      },
      each: (filter) => read(filter, caller, Number.POSITIVE_INFINITY),
      count: async (filter) => records.count(conditionOf(filter), caller),
      as: (principal) => forCaller({ principal, signal, log }),
    };
  }

  async function* read(
    filter: FilterOf<z.output<Schema>> | undefined,
    caller: RecordContext,
    limit: number,
  ): AsyncGenerator<z.output<Schema>> {
    const where = conditionOf(filter);
    let left = limit;
    let cursor: string | undefined;
    while (left > 0) {
      const page = await records.list(
        { where, filter: undefined, sort: [], cursor, pageSize: Math.min(pageSize, left), includeTotal: false },
        caller,
      );
      for (const row of page.items) yield typed(row);
      left -= page.items.length;
      cursor = page.nextCursor;
      if (cursor === undefined) return;
    }
  }

  function conditionOf(filter: FilterOf<z.output<Schema>> | undefined): RowCondition {
    if (filter === undefined) return allRows;
    const parsed = parseEntityFilter(filter, [...modelOf(entity).fields.values()]);
    if (!parsed.ok) throw invalidArguments(parsed.issues);
    return parsed.condition;
  }

  // Rows have passed the schema, which is what the type says.
  function typed(row: Row | undefined): z.output<Schema> {
    return (row ?? {}) as z.output<Schema>;
  }
}

function valuesOf(record: object): FieldValues {
  return new Map(Object.entries(record as Readonly<Record<string, JsonValue | undefined>>));
}
