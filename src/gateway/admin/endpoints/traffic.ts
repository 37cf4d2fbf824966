import * as z from "zod";

import { GatewayError } from "../../../errors.ts";
import { explainRecorded } from "../../evaluation/explained-exchange.ts";
import type { AdminDeps } from "../deps.ts";
import { defineEndpoint } from "../endpoint.ts";
import { explanationSchema } from "../../evaluation/explanation.ts";
import { conditionOf, filterField, windowOf, windowQuery } from "../filter-query.ts";
import { withoutContent } from "../message-content.ts";
import type { ExchangeQuery } from "../../../recorder/store/store-contract.ts";
import type { OperationFrames } from "../queries/traffic-queries.ts";
import { nothing, routeAbout } from "../schemas.ts";
import { routesOf } from "./session.ts";
import type { Caller } from "../sign-in/sign-in.ts";
import {
  edgeSchema,
  exchangeSchema,
  figuresSchema,
  frameSchema,
  operationSchema,
  sessionSchema,
  turnSchema,
} from "../traffic-schemas.ts";

const exchangeId = z.strictObject({ id: z.string().min(1).max(200) });

const pageFields = {
  filter: filterField,
  order: z.enum(["newest", "oldest"]).default("newest"),
  cursor: z
    .string()
    .regex(/^[\d.]{1,100}$/u, { error: "is not a cursor of an earlier page" })
    .optional()
    .describe("The `next` of the previous page."),
};

type PageFields = z.output<z.ZodObject<typeof pageFields>> & { readonly limit: number };

function pageOf({ filter, cursor, ...rest }: PageFields, now: number, caller: Caller): ExchangeQuery {
  const where = conditionOf(filter, now, caller);
  return { ...rest, ...(where === undefined ? {} : { where }), ...(cursor === undefined ? {} : { cursor }) };
}

/** `GET /exchanges`: recorded exchanges by filter, page by page. */
export const listExchanges = defineEndpoint({
  method: "GET",
  path: "/exchanges",
  name: "listExchanges",
  summary: "Recorded exchanges that match a filter, the newest first.",
  right: "view",
  pathSchema: nothing,
  query: z.strictObject({ ...pageFields, limit: z.coerce.number().int().min(1).max(1000).default(100) }),
  result: z.strictObject({ exchanges: z.array(exchangeSchema).readonly(), next: z.string().optional() }),
  handle: ({ query, caller }, { queries, clock }) => queries.exchanges(pageOf(query, clock.wall(), caller)),
});

/** `GET /exchanges/{id}`: everything that happened to a message. */
export const getExchange = defineEndpoint({
  method: "GET",
  path: "/exchanges/{id}",
  name: "getExchange",
  summary: "An exchange with the others of its operation and all frames. Bodies need the right `bodies`.",
  right: "view",
  pathSchema: exchangeId,
  query: nothing,
  result: z.strictObject({
    operation: operationSchema,
    frames: z.record(z.string(), z.array(frameSchema).readonly()).describe("By exchange id."),
  }),
  handle: async ({ path, caller }, deps) => {
    const found = await findOperation(path.id, deps);
    return mayReadBodies(caller, path.id, deps) ? found : withoutContent(found);
  },
});

/** `GET /exchanges/{id}/why`: the outcome of every rule. */
export const explainExchange = defineEndpoint({
  method: "GET",
  path: "/exchanges/{id}/why",
  name: "explainExchange",
  summary: "The outcome of each rule of the running policy for a recorded exchange.",
  right: "view",
  pathSchema: exchangeId,
  query: nothing,
  result: explanationSchema,
  handle: async ({ path, caller }, deps) => {
    const { operation, frames } = await findOperation(path.id, deps);
    const record = operation.exchanges.find(({ id }) => id === path.id) ?? operation.exchanges[0];
    if (record === undefined) throw missing(path.id);
    return explainRecorded(frames[record.id] ?? [], {
      policy: deps.config().routes[record.route]?.policy,
      showsValues: mayReadBodies(caller, path.id, deps),
    });
  },
});

/** `GET /sessions`: what each client did. */
export const recentSessions = defineEndpoint({
  method: "GET",
  path: "/sessions",
  name: "listSessions",
  summary: "Clients of the last minutes, by session where they have one.",
  right: "view",
  pathSchema: nothing,
  query: windowQuery,
  result: z.strictObject({ sessions: z.array(sessionSchema).readonly() }),
  handle: async ({ query, caller }, { queries, clock }) => ({
    sessions: await queries.sessions(windowOf(query, clock.wall(), caller)),
  }),
});

/** `GET /conversations`: what clients did, for people who do not read JSON-RPC. */
export const listTurns = defineEndpoint({
  method: "GET",
  path: "/conversations",
  name: "listTurns",
  summary:
    "What clients did, turn by turn, for people who do not read JSON-RPC; the `filter` of a session finds one conversation. A turn whose exchanges are on two pages is on both.",
  right: "view",
  pathSchema: nothing,
  query: z.strictObject({ ...pageFields, limit: z.coerce.number().int().min(1).max(200).default(50) }),
  result: z.strictObject({ turns: z.array(turnSchema).readonly(), next: z.string().optional() }),
  handle: async ({ query, caller }, deps) => {
    const bodies = caller.rights.includes("bodies");
    const page = await deps.queries.turns({ ...pageOf(query, deps.clock.wall(), caller), bodies });
    for (const { id } of page.turns) mayReadBodies(caller, id, deps);
    return page;
  },
});

/** `GET /figures`: rates, errors and latencies, and who talks to whom. */
export const getFigures = defineEndpoint({
  method: "GET",
  path: "/figures",
  name: "getFigures",
  summary: "Rates, errors, latency percentiles, targets and the map of the last minutes.",
  right: "view",
  pathSchema: nothing,
  query: windowQuery,
  result: figuresSchema,
  handle: ({ query, caller }, { queries, clock }) => queries.figures(windowOf(query, clock.wall(), caller)),
});

/** `GET /topology`: who talks to which server. */
export const getTopology = defineEndpoint({
  method: "GET",
  path: "/topology",
  name: "getTopology",
  summary: "Routes with the health of their servers, and the rates, errors and latencies between callers and them.",
  right: "view",
  pathSchema: nothing,
  query: windowQuery,
  result: z.strictObject({
    complete: z.boolean().describe("False if only the newest part of the window could be counted."),
    routes: z.array(routeAbout),
    edges: z.array(edgeSchema).readonly(),
  }),
  handle: async ({ query, caller }, deps) => ({
    ...(await deps.queries.topology(windowOf(query, deps.clock.wall(), caller))),
    routes: await routesOf(deps),
  }),
});

async function findOperation(id: string, { queries }: AdminDeps): Promise<OperationFrames> {
  const found = await queries.operation(id);
  if (found === undefined) throw missing(id);
  return found;
}

function missing(id: string): GatewayError {
  return new GatewayError("not_found", `no exchange, or more than one, has an id beginning with ${id}`);
}

/** Reading messages is a separate right, and is noted in log and audit. */
function mayReadBodies(caller: Caller, exchange: string, { note }: AdminDeps): boolean {
  if (!caller.rights.includes("bodies")) return false;
  note(caller, "recorded messages were read", { exchange });
  return true;
}
