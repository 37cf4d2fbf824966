import * as z from "zod";

import { GatewayError } from "../../errors.ts";
import type { FilterCondition } from "../../recorder/contract.ts";
import { readsBodies } from "../../recorder/filter/condition.ts";
import { parseTrafficFilter } from "../../recorder/filter/parse.ts";
import type { WindowQuery } from "./queries/traffic-queries.ts";
import { type Caller, demandRight } from "./sign-in/sign-in.ts";

/** A filter, in the language of `headgate traffic`. */
export const filterField = z.string().max(2000).optional().describe("A filter, as for `headgate traffic`.");

/**
 * The condition of a filter; undefined if there is none. Throws if it searches in messages and the caller lacks that
 * right.
 */
export function conditionOf(filter: string | undefined, now: number, caller: Caller): FilterCondition | undefined {
  if (filter === undefined || filter.trim() === "") return undefined;
  const parsed = parseTrafficFilter(filter, { now });
  if (parsed.ok) {
    if (readsBodies(parsed.condition)) demandRight(caller, "bodies", "a filter that searches in messages");
    return parsed.condition;
  }
  const { message, at } = parsed.problem;
  throw new GatewayError("invalid_params", `filter: ${message}`, { details: { at } });
}

/** A week, as long as recordings are kept by default. */
const maxMinutes = 10_080;

/** The query of endpoints that look at a window of time. */
export const windowQuery = z.strictObject({
  filter: filterField,
  minutes: z.coerce.number().positive().max(maxMinutes).default(60).describe("How far to look back."),
});

/** The window that a query names, up to now. */
export function windowOf({ filter, minutes }: z.output<typeof windowQuery>, now: number, caller: Caller): WindowQuery {
  const where = conditionOf(filter, now, caller);
  return { from: now - minutes * 60_000, to: now + 1, ...(where === undefined ? {} : { where }) };
}
