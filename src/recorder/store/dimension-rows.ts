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

/** What an exchange shares with others, and the context that is stored with its caller. */
export interface ExchangeDimensions {
  readonly caller: ExchangeCaller;
  readonly context: string;
  readonly outcome: ExchangeOutcome;
}

/** The numbers of those rows. */
export type DimensionNumbers = Readonly<Record<DimensionTable, number>>;

/** Writes rows that many exchanges share once, and caches their numbers. */
export interface DimensionRows {
  /** The numbers of rows that were written before; undefined if one was not. */
  find(dimensions: ExchangeDimensions): DimensionNumbers | undefined;
  /** Writes the rows that are missing. */
  write(inside: SqlDatabase, dimensions: ExchangeDimensions): Promise<DimensionNumbers>;
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

  async function writeCaller(inside: SqlDatabase, caller: ExchangeCaller, context: string): Promise<number> {
    const columns = [...callerFields.map((field) => exchangeFields[field].column), "context"];
    const values = [...callerFields.map((field) => toColumn(caller[field])), context];
    const number = await insert(inside, "caller", columns, values);
    callers.set(callerKey(caller, context), number);
    return number;
  }

  async function writeOutcome(inside: SqlDatabase, outcome: ExchangeOutcome): Promise<number> {
    const columns = outcomeFields.map((field) => exchangeFields[field].column);
    const values = outcomeFields.map((field) => toColumn(outcome[field]));
    const number = await insert(inside, "outcome", columns, values);
    outcomes.set(outcome, number);
    return number;
  }

  return {
    isRepeatedContext: (context) => {
      if (seenContexts.has(context)) return true;
      if (seenContexts.size >= maxCachedRows) seenContexts = new Set();
      seenContexts.add(context);
      return false;
    },
    find: ({ caller, context, outcome }) => {
      const callerNumber = callers.get(callerKey(caller, context));
      const outcomeNumber = outcomes.get(outcome);
      if (callerNumber === undefined || outcomeNumber === undefined) return undefined;
      return { caller: callerNumber, outcome: outcomeNumber };
    },
    write: async (inside, { caller, context, outcome }) => ({
      caller: callers.get(callerKey(caller, context)) ?? (await writeCaller(inside, caller, context)),
      outcome: outcomes.get(outcome) ?? (await writeOutcome(inside, outcome)),
    }),
    clear,
  };
}

const callerFields = fieldsIn("caller");
const outcomeFields = fieldsIn("outcome");

/** A context names its caller too, and is already a string. */
function callerKey(caller: ExchangeCaller, context: string): string {
  return context === "" ? JSON.stringify(callerFields.map((field) => caller[field])) : context;
}
