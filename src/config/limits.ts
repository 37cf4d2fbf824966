import * as z from "zod";

import { defaultLimits } from "../protocol/message.ts";
import { eventStoreConfig } from "../sessions/config.ts";
import { anyDuration, duration, durationField } from "../lib/duration.ts";

const rate = z.strictObject({
  perSecond: z.number().positive().max(1_000_000).describe("Messages a second, in the long run."),
  burst: z
    .int()
    .min(1)
    .max(1_000_000)
    .optional()
    .describe("Messages at once after a pause; as many as in a second unless given."),
});

/** How often clients may send, under `limits` for all routes and under a route instead of that. */
export const ratesConfig = z.strictObject({
  principal: rate.optional().describe("All messages of one principal."),
  session: rate.optional().describe("All messages of one session."),
  methods: z
    .record(z.string().min(1), rate)
    .default({})
    .describe("Messages of one principal by method; `*` stands for any text, and a name counts before a pattern."),
});

/** The `limits` part of the configuration: what the gateway holds and takes at most. */
export const limitsConfig = z.strictObject({
  bodyBytes: count(defaultLimits.maxBytes).describe("Largest HTTP body of a message, from either side."),
  stdioLineBytes: count(defaultLimits.maxBytes).describe("Longest line of a child process or of standard input."),
  headerBytes: count(16_384).describe("Largest sum of the headers of a request."),
  depth: count(defaultLimits.maxDepth, 1000).describe("Deepest nesting of a message."),
  batch: count(defaultLimits.maxBatch).describe("Most messages in a batch of revision 2025-03-26."),
  concurrentRequests: count(1000).describe("Most client requests that run at once."),
  perPrincipalRequests: count(500).describe(
    "Most requests of one principal that run at once, counted first, so that a flood only meets its own limit.",
  ),
  pendingPerScope: count(1000).describe("Most requests that wait for an answer in one session or connection."),
  pending: count(10_000).describe("Most requests that wait for an answer on one route."),
  sessions: count(1000).describe("Most open sessions in the whole process."),
  sessionsPerPrincipal: count(1000).describe(
    "Most open sessions of one principal, counted first, so that a flood only meets its own limit.",
  ),
  parked: count(10_000).describe(
    "Most calls of modern clients that wait for an answer to what an older server has asked.",
  ),
  parkedPerPrincipal: count(1000).describe(
    "Most such calls of one principal on one route, counted first, so that a flood only meets its own limit.",
  ),
  queueBytes: count(1_048_576).describe("Most bytes that wait for one slow reader before it is cut off."),
  eventStore: eventStoreConfig
    .prefault({})
    .describe("What is kept of event streams so that clients can resume them; 0 keeps nothing."),
  rates: ratesConfig
    .prefault({})
    .describe(
      "How often clients may send, each route counted on its own; nothing is limited unless given. Progress and cancellation are free.",
    ),
});

function count(fallback: number, largest = Number.MAX_SAFE_INTEGER) {
  return z.int().min(1).max(largest).default(fallback);
}

const meanings = {
  connect: "How long connecting to an upstream may take.",
  quick: "Inactivity limit of lists, the handshake and other quick requests.",
  tool: "Inactivity limit of calls, reads and prompts; progress starts it again.",
  human: "Inactivity limit of requests that wait for a person or a model.",
  hard: "Limit of every request, progress or not.",
  streamKeepAlive: "Silence on an open event stream after which a comment is sent.",
} as const;

/** The `timeouts` part of the configuration. */
export const timeoutsConfig = z.strictObject({
  connect: durationField("10s").describe(meanings.connect),
  quick: durationField("30s").describe(meanings.quick),
  tool: durationField("5m").describe(meanings.tool),
  human: durationField("30m").describe(meanings.human),
  hard: durationField("1h").describe(meanings.hard),
  streamKeepAlive: durationField("15s").describe(meanings.streamKeepAlive),
});

/** The `timeouts` part of a route: what differs there, and limits of single tools. */
export const routeTimeoutsConfig = z.strictObject({
  connect: duration.optional().describe(meanings.connect),
  quick: duration.optional().describe(meanings.quick),
  tool: duration.optional().describe(meanings.tool),
  human: duration.optional().describe(meanings.human),
  hard: duration.optional().describe(meanings.hard),
  streamKeepAlive: duration.optional().describe(meanings.streamKeepAlive),
  tools: z.record(z.string(), duration).default({}).describe("Inactivity limits of single tools, by tool name."),
});

/** The `shutdown` part of the configuration. */
export const shutdownConfig = z.strictObject({
  grace: anyDuration
    .prefault("10s")
    .describe(
      "How long running calls may finish before the process ends, or before a server is let go that a reload took away.",
    ),
});
