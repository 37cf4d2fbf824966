import type { z } from "zod";

import type { Principal } from "../exchange.ts";
import type { Logger } from "../telemetry/log.ts";
import type { Entity } from "./entity.ts";
import type { FilterOf } from "./filter.ts";
import { parseEntityFilter } from "./filter.ts";
import { invalidArguments } from "./failure.ts";
import type { Records } from "./records.ts";
import type { JsonValue, Row } from "./row.ts";
import { allRows } from "./stores/store.ts";

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
