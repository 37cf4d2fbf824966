import * as z from "zod";

import {
  type ExchangeRecord,
  exchangeStatuses,
  type Frame,
  type FrameKind,
  type OperationRecord,
} from "../../recorder/contract.ts";
import { type ExchangeField, exchangeFields } from "../../recorder/exchange-fields.ts";
import type { Turn } from "../../recorder/conversation/turns.ts";
import type { StatsRow } from "../../recorder/store/store-contract.ts";

const columnTypes = {
  id: z.string(),
  text: z.string(),
  integer: z.number(),
  real: z.number(),
  boolean: z.boolean(),
} as const satisfies Readonly<Record<ExchangeField["type"], z.ZodType>>;

/** A recorded exchange: the fields of the store and its position there. */
// The table has a row for every member of the type.
export const exchangeSchema = z.strictObject({
  capture: z.string(),
  seq: z.number(),
  ...Object.fromEntries(
    Object.entries<ExchangeField>(exchangeFields).map(([name, { type, nullable }]) => {
      const schema = columnTypes[type];
      return [name, nullable === true ? schema.optional() : schema];
    }),
  ),
  operation: z.string(),
  state: z.enum(exchangeStatuses),
}) as unknown as z.ZodType<ExchangeRecord>;

// The compiler reports a missing one.
const frameKinds: Readonly<Record<FrameKind, true>> = {
  request: true,
  notification: true,
  result: true,
  error: true,
  decision: true,
  diagnostic: true,
  raw: true,
  http: true,
  stderr: true,
  gap: true,
  end: true,
};

/** An observation on one side of the gateway; the recording guide describes it. */
export const frameSchema = z.looseObject({
  seq: z.number(),
  at: z.number(),
  mono: z.number().describe("Monotonic milliseconds, for durations."),
  kind: z.enum(Object.keys(frameKinds)),
  leg: z.enum(["client", "upstream"]),
  passing: z.enum(["received", "sent"]),
  body: z.string().optional().describe("The redacted message; absent without the right to read messages."),
}) as unknown as z.ZodType<Frame>;

/** What a user calls one action, with its exchanges and their frames. */
export const operationSchema = z.looseObject({
  id: z.string(),
  exchanges: z.array(exchangeSchema),
}) as unknown as z.ZodType<OperationRecord>;

const latency = { p50Ms: z.number().optional(), p95Ms: z.number().optional(), p99Ms: z.number().optional() };
const counts = { count: z.number(), errors: z.number(), refused: z.number() };

/** Rates, errors and latencies of a window, and who talks to whom. */
export const figuresSchema = z.strictObject({
  from: z.number(),
  to: z.number(),
  complete: z.boolean().describe("False if only the newest part of the window could be counted."),
  requests: z.number(),
  errors: z.number(),
  refused: z.number(),
  ...latency,
  buckets: z.array(z.strictObject({ at: z.number(), ...counts, p95Ms: z.number().optional() })).readonly(),
  targets: z
    .array(z.looseObject({ route: z.string(), method: z.string(), ...counts }))
    .readonly() as unknown as z.ZodType<readonly StatsRow[]>,
  slowest: z.array(exchangeSchema).readonly(),
  refusals: z
    .array(
      z.strictObject({
        by: z.string().describe("The rule, or the code of the gateway's error."),
        filter: z.string().describe("Finds these exchanges."),
        count: z.number(),
      }),
    )
    .readonly(),
});

/** The requests of a caller on a route, and to which of its servers. */
export const edgeSchema = z.strictObject({
  principal: z.string(),
  client: z.string().optional().describe("What the client calls itself."),
  route: z.string(),
  upstream: z.string().optional().describe("The server that the request went to, on a route with several."),
  byGateway: z.literal(true).optional().describe("The gateway asked this server itself, to answer the caller."),
  ...counts,
  ...latency,
});

/** What one client did. */
export const sessionSchema = z.strictObject({
  filter: z.string().describe("Finds its exchanges."),
  session: z.string().optional(),
  principal: z.string(),
  client: z.string().optional().describe("What the client calls itself."),
  route: z.string(),
  revision: z.string(),
  transport: z.string(),
  firstAt: z.number(),
  lastAt: z.number(),
  calls: z.number(),
  errors: z.number(),
  refused: z.number(),
  targets: z.array(z.string()).readonly(),
});

/** One thing that a client asked for or was asked, with its rounds and the questions in between. */
export const turnSchema = z.strictObject({
  id: z.string().describe("The id of its first exchange."),
  at: z.number(),
  by: z.enum(["client", "server"]).describe("Who asked."),
  principal: z.string(),
  route: z.string(),
  session: z.string().optional(),
  method: z.string(),
  target: z.string().optional(),
  summary: z.string().describe("What happened, as a sentence."),
  state: z.enum(exchangeStatuses),
  durationMs: z.number().optional(),
  rounds: z.number().describe("How many requests it took the client."),
  arguments: z
    .array(z.strictObject({ name: z.string(), value: z.string() }))
    .readonly()
    .optional()
    .describe("What the call was given, as text; absent without the right to read messages."),
  questions: z
    .array(z.strictObject({ summary: z.string(), text: z.string().optional(), answer: z.string().optional() }))
    .readonly()
    .describe("Requests from the server during the call."),
  answer: z.string().optional().describe("The answer, as text; absent without the right to read messages."),
}) as unknown as z.ZodType<Turn>;
