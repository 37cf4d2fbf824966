import type { FrameContext } from "../contract.ts";
import { createOutcomeCache, outcomeFields, type ExchangeOutcome } from "../dimension-cache.ts";
import type { SqlDatabase, ColumnValue } from "./sql-database.ts";
import { dimensionColumns, type DimensionTable } from "./columns.ts";

/** Who asked, and how. */
export type ExchangeCaller = Pick<FrameContext, "route" | "principal" | "session" | "revision" | "transport">;

/** Writes what many exchanges share once, and remembers its numbers. */
export interface DimensionRows {
  /** The number of a party, whose context may stand with it; -1 where it has to be written first. */
  caller(party: ExchangeCaller, context: string): number;
  writeCaller(inside: SqlDatabase, party: ExchangeCaller, context: string): Promise<number>;
  /** The same for a subject. */
  outcome(subject: ExchangeOutcome): number;
  writeOutcome(inside: SqlDatabase, subject: ExchangeOutcome): Promise<number>;
  /** Whether a context comes again, so that it is worth to stand with a party. */
  isRepeatedContext(context: string): boolean;
  clear(): void;
}

/** What is remembered at most; beyond that it is written again, which harms nothing. */
const maxCachedRows = 5000;

/** Makes the memory of one writer. */
export function createDimensionRows(): DimensionRows {
  const parties = new Map<string, number>();
  const contexts = new Set<string>();
  const subjects = createOutcomeCache<number>();
  let seen = new Set<string>();
  let remembered = 0;

  function forget(): void {
    parties.clear();
    contexts.clear();
    subjects.clear();
    remembered = 0;
  }

  async function write(
    inside: SqlDatabase,
    table: DimensionTable,
    columns: readonly string[],
    values: readonly ColumnValue[],
  ): Promise<number> {
    if (remembered++ >= maxCachedRows) forget();
    const places = values.map(() => "?").join(", ");
    const [row] = await inside.all(
      `INSERT INTO ${table} (${columns.join(", ")}) VALUES (${places}) RETURNING number`,
      values,
    );
    return Number(row?.["number"]);
  }

  return {
    isRepeatedContext: (context) => {
      if (contexts.has(context) || seen.has(context)) return true;
      // Such as come only once, since every request brings another header, are not worth a row.
      if (seen.size >= maxCachedRows) seen = new Set();
      seen.add(context);
      return false;
    },
    caller: (party, context) => parties.get(callerKey(party, context)) ?? -1,
    writeCaller: async (inside, party, context) => {
      const { route, principal, session = null, revision, transport } = party;
      const columns = [...dimensionColumns.party.values(), "context"];
      const values = [route, principal, session, revision, transport, context];
      const number = await write(inside, "party", columns, values);
      if (context !== "") contexts.add(context);
      parties.set(callerKey(party, context), number);
      return number;
    },
    outcome: (subject) => subjects.get(subject) ?? -1,
    writeOutcome: async (inside, subject) => {
      const values = outcomeFields.map((member): ColumnValue => {
        const value = subject[member];
        return typeof value === "boolean" ? Number(value) : (value ?? null);
      });
      const number = await write(inside, "subject", [...dimensionColumns.subject.values()], values);
      subjects.set(subject, number);
      return number;
    },
    clear: forget,
  };
}

/** A context says it all, and is at hand. */
function callerKey({ route, principal, session, revision, transport }: ExchangeCaller, context: string): string {
  return context === "" ? JSON.stringify([route, principal, session, revision, transport]) : context;
}
