import { createOutcomeCache } from "../dimension-cache.ts";
import {
  exchangeFields,
  fieldsIn,
  type DimensionTable,
  type ExchangeCaller,
  type ExchangeOutcome,
} from "../exchange-fields.ts";
import { toColumn } from "./columns.ts";
import type { ColumnValue, SqlDatabase } from "./sql-database.ts";

/** Writes rows that many exchanges share once, and caches their numbers. */
export interface DimensionRows {
  /** The number of a caller's row, which may hold a context too; undefined if it must be written first. */
  caller(caller: ExchangeCaller, context: string): number | undefined;
  writeCaller(inside: SqlDatabase, caller: ExchangeCaller, context: string): Promise<number>;
  outcome(outcome: ExchangeOutcome): number | undefined;
  writeOutcome(inside: SqlDatabase, outcome: ExchangeOutcome): Promise<number>;
  /** Whether a context came before, so that it is worth storing with its caller. */
  isRepeatedContext(context: string): boolean;
  clear(): void;
}

/** Rows beyond this many are written again, which does no harm. */
const maxCachedRows = 5000;

/** Makes the cache of one writer. */
export function createDimensionRows(): DimensionRows {
  const callers = new Map<string, number>();
  const outcomes = createOutcomeCache<number>();
  let seenContexts = new Set<string>();
  let cached = 0;

  function clear(): void {
    callers.clear();
    outcomes.clear();
    cached = 0;
  }

  async function insert(
    inside: SqlDatabase,
    table: DimensionTable,
    columns: readonly string[],
    values: readonly ColumnValue[],
  ): Promise<number> {
    if (cached++ >= maxCachedRows) clear();
    const places = values.map(() => "?").join(", ");
    const [row] = await inside.all(
      `INSERT INTO ${table} (${columns.join(", ")}) VALUES (${places}) RETURNING number`,
      values,
    );
    return Number(row?.["number"]);
  }

  return {
    isRepeatedContext: (context) => {
      if (seenContexts.has(context)) return true;
      if (seenContexts.size >= maxCachedRows) seenContexts = new Set();
      seenContexts.add(context);
      return false;
    },
    caller: (caller, context) => callers.get(callerKey(caller, context)),
    writeCaller: async (inside, caller, context) => {
      const columns = [...callerFields.map((field) => exchangeFields[field].column), "context"];
      const values = [...callerFields.map((field) => toColumn(caller[field])), context];
      const number = await insert(inside, "caller", columns, values);
      callers.set(callerKey(caller, context), number);
      return number;
    },
    outcome: (outcome) => outcomes.get(outcome),
    writeOutcome: async (inside, outcome) => {
      const columns = outcomeFields.map((field) => exchangeFields[field].column);
      const values = outcomeFields.map((field) => toColumn(outcome[field]));
      const number = await insert(inside, "outcome", columns, values);
      outcomes.set(outcome, number);
      return number;
    },
    clear,
  };
}

const callerFields = fieldsIn("caller");
const outcomeFields = fieldsIn("outcome");

/** A context names its caller too, and is already a string. */
function callerKey(caller: ExchangeCaller, context: string): string {
  return context === "" ? JSON.stringify(callerFields.map((field) => caller[field])) : context;
}
