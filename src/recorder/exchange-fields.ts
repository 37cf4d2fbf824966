import type { ExchangeRecord } from "./contract.ts";

/**
 * Every stored field of an exchange. The SQL schema, the rows that are written and read, the caches of rows that
 * exchanges share and the SQL of filters are all made from this table.
 *
 * A new column needs:
 * 1. a member of `ExchangeRecord` in `contract.ts` (the compiler then asks for its row here);
 * 2. its row below, and a higher `storeFormat` in `store/schema.ts`; its value in `pushExchange` there, if it is a column
 *    of `exchange`, or in `isSameOutcome` of `dimension-cache.ts`, if it is one of `outcome`;
 * 3. the line in `derive.ts` that sets it from frames, and, if it comes from a new member of `Frame`, that member's
 *    name in `rareFields` of `pack.ts`;
 * 4. a term in `filter/terms.ts`, if people should be able to search for it.
 *
 * Which table: `caller` for who asked, `outcome` for what was asked and how it ended (both have few different rows, are
 * written once, and are searched through the block index), `exchange` for values that differ from exchange to exchange.
 */
export const exchangeFields = {
  at: { table: "exchange", column: "at", type: "real" },
  id: { table: "exchange", column: "id", type: "id" },
  /** Null where it equals `id`, as it mostly does. */
  operation: { table: "exchange", column: "operation", type: "text", nullable: true },
  parent: { table: "exchange", column: "parent", type: "text", nullable: true },
  traceId: { table: "exchange", column: "trace_id", type: "text", nullable: true },
  rpcId: { table: "exchange", column: "rpc_id", type: "text", nullable: true },
  durationMs: { table: "exchange", column: "duration_ms", type: "real", nullable: true },
  upstreamMs: { table: "exchange", column: "upstream_ms", type: "real", nullable: true },
  requestBytes: { table: "exchange", column: "request_bytes", type: "integer" },
  answerBytes: { table: "exchange", column: "answer_bytes", type: "integer" },
  route: { table: "caller", column: "route", type: "text" },
  principal: { table: "caller", column: "principal", type: "text" },
  client: { table: "caller", column: "client", type: "text", nullable: true },
  session: { table: "caller", column: "session", type: "text", nullable: true },
  revision: { table: "caller", column: "revision", type: "text" },
  transport: { table: "caller", column: "transport", type: "text" },
  kind: { table: "outcome", column: "kind", type: "text" },
  direction: { table: "outcome", column: "direction", type: "text" },
  method: { table: "outcome", column: "method", type: "text" },
  target: { table: "outcome", column: "target", type: "text", nullable: true },
  upstream: { table: "outcome", column: "upstream", type: "text", nullable: true },
  state: { table: "outcome", column: "state", type: "text" },
  errorCode: { table: "outcome", column: "error_code", type: "integer", nullable: true },
  gatewayCode: { table: "outcome", column: "gateway_code", type: "text", nullable: true },
  decision: { table: "outcome", column: "decision", type: "text", nullable: true },
  rule: { table: "outcome", column: "rule", type: "text", nullable: true },
  diagnostic: { table: "outcome", column: "diagnostic", type: "text", nullable: true },
  messages: { table: "outcome", column: "messages", type: "integer" },
  modified: { table: "outcome", column: "modified", type: "boolean" },
  redacted: { table: "outcome", column: "redacted", type: "integer" },
  omitted: { table: "outcome", column: "omitted", type: "integer" },
} as const satisfies Readonly<Record<StoredField, ExchangeField>>;

/** Members of an exchange that have a column; capture and number make up its position, the primary key. */
export type StoredField = Exclude<keyof ExchangeRecord, "capture" | "seq">;

/** How a field is stored. */
export interface ExchangeField {
  readonly table: ExchangeTable;
  readonly column: string;
  /** An `id` is a string that the database orders as JavaScript does. */
  readonly type: "id" | "text" | "integer" | "real" | "boolean";
  readonly nullable?: true;
}

/** The tables that hold exchanges. */
export type ExchangeTable = "exchange" | DimensionTable;

/** Tables of rows that many exchanges share. */
export type DimensionTable = "caller" | "outcome";

type FieldIn<Table extends ExchangeTable> = {
  [Field in StoredField]: (typeof exchangeFields)[Field]["table"] extends Table ? Field : never;
}[StoredField];

/** What is stored in an exchange's own row. */
export type OwnFields = Pick<ExchangeRecord, FieldIn<"exchange">>;

/** Who asked, and how. */
export type ExchangeCaller = Pick<ExchangeRecord, FieldIn<"caller">>;

/** What was asked for and how it ended. */
export type ExchangeOutcome = Pick<ExchangeRecord, FieldIn<"outcome">>;

/** The fields of a table, in the order of its columns. */
export function fieldsIn<Table extends ExchangeTable>(table: Table): readonly FieldIn<Table>[] {
  // The keys of the table above, filtered by what the type says.
  return (Object.keys(exchangeFields) as StoredField[]).filter(
    (field): field is FieldIn<Table> => exchangeFields[field].table === table,
  );
}
