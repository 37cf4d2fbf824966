import type { ExchangeRecord } from "../contract.ts";
import type { SqlDatabase, SqlValue } from "./database.ts";
import { sharedColumns, sharedValues, type SharedTable } from "./rows.ts";

/** Writes what many exchanges share once, and remembers its numbers. */
export interface SharedRows {
  /** The numbers of an exchange's party and subject; -1 where one has to be written first. */
  party(context: string, exchange: ExchangeRecord): number;
  subject(exchange: ExchangeRecord): number;
  /** Writes it. A context is kept with a party only where it comes again. */
  write(inside: SqlDatabase, table: SharedTable, exchange: ExchangeRecord, context: string): Promise<number>;
  /** Whether the context of an exchange stands with its party. */
  holds(context: string): boolean;
  forget(): void;
}

/** What is remembered at most; beyond that it is written again, which harms nothing. */
const mostRemembered = 5000;

const states = [
  "open",
  "ok",
  "tool_error",
  "input_required",
  "error",
  "refused",
  "failed",
  "accepted",
  "abandoned",
];

/** Makes the memory of one writer. */
export function createSharedRows(): SharedRows {
  const parties = new Map<string, number>();
  const contexts = new Set<string>();
  /** By method, target, and a number for all that most exchanges have. */
  const usual = new Map<string, Map<string, Map<number, number>>>();
  const unusual = new Map<string, number>();
  let seen = new Set<string>();
  let remembered = 0;

  function forget(): void {
    parties.clear();
    contexts.clear();
    usual.clear();
    unusual.clear();
    remembered = 0;
  }

  function remember(table: SharedTable, exchange: ExchangeRecord, context: string, number: number): void {
    if (remembered++ >= mostRemembered) forget();
    if (table === "party") {
      if (context !== "") contexts.add(context);
      parties.set(partyKey(exchange, context), number);
      return;
    }
    const key = usualKey(exchange);
    if (key < 0) {
      unusual.set(subjectKey(exchange), number);
      return;
    }
    const { method, target = "" } = exchange;
    const targets = usual.get(method) ?? new Map<string, Map<number, number>>();
    usual.set(method, targets);
    const numbers = targets.get(target) ?? new Map<number, number>();
    targets.set(target, numbers);
    numbers.set(key, number);
  }

  return {
    holds: (context) => {
      if (contexts.has(context) || seen.has(context)) return true;
      // Such as come only once, since every request brings another header, are not worth a row.
      if (seen.size >= mostRemembered) seen = new Set();
      seen.add(context);
      return false;
    },
    party: (context, exchange) => parties.get(partyKey(exchange, context)) ?? -1,
    subject: (exchange) => {
      const key = usualKey(exchange);
      if (key < 0) return unusual.get(subjectKey(exchange)) ?? -1;
      return (
        usual
          .get(exchange.method)
          ?.get(exchange.target ?? "")
          ?.get(key) ?? -1
      );
    },
    write: async (inside, table, exchange, context) => {
      const values: SqlValue[] = sharedValues(table, exchange);
      const names = [...sharedColumns[table].values()];
      if (table === "party") {
        values.push(context);
        names.push("context");
      }
      const places = values.map(() => "?").join(", ");
      const [row] = await inside.all(
        `INSERT INTO ${table} (${names.join(", ")}) VALUES (${places}) RETURNING number`,
        values,
      );
      const number = Number(row?.["number"]);
      remember(table, exchange, context, number);
      return number;
    },
    forget,
  };
}

/** A context says it all, and is at hand. */
function partyKey(
  { route, principal, session, revision, transport }: ExchangeRecord,
  context: string,
): string {
  return context === "" ? JSON.stringify([route, principal, session, revision, transport]) : context;
}

/** What is usual in a number; below zero where something is not. */
function usualKey(exchange: ExchangeRecord): number {
  if (
    exchange.errorCode !== undefined ||
    exchange.gatewayCode !== undefined ||
    exchange.decision !== undefined ||
    exchange.rule !== undefined ||
    exchange.redacted !== 0 ||
    exchange.omitted !== 0
  )
    return -1;
  const flags =
    (exchange.kind === "request" ? 0 : 1) +
    (exchange.direction === "c2s" ? 0 : 2) +
    (exchange.modified ? 4 : 0) +
    (exchange.target === undefined ? 8 : 0);
  return exchange.messages * 256 + states.indexOf(exchange.state) * 16 + flags;
}

function subjectKey(exchange: ExchangeRecord): string {
  return JSON.stringify(sharedValues("subject", exchange));
}
