import * as z from "zod";

import { defaultLimits, stdioLineLimit } from "../protocol/message.ts";
import { eventStoreConfig } from "../sessions/session.ts";
import { anyDuration, duration, durationField } from "../lib/duration.ts";

const rate = z.strictObject({
  perSecond: z.number().positive().max(1_000_000).describe("Sustained rate of messages per second."),
  burst: z
    .int()
    .min(1)
    .max(1_000_000)
    .optional()
    .describe("Messages allowed at once after a pause. Default: one second's worth."),
});

/** The `rates` part of the configuration and of a route. */
export const ratesConfig = z.strictObject({
  principal: rate.optional().describe("Limit for all messages of one principal."),
  session: rate.optional().describe("Limit for all messages of one session."),
  methods: z
    .record(z.string().min(1), rate)
    .default({})
    .describe(
      "Limits for messages of one principal by method; `*` matches any text, and an exact name takes precedence.",
    ),
});

/** The `limits` part of the configuration. */
export const limitsConfig = z.strictObject({
  bodyBytes: count(defaultLimits.maxBytes).describe("Largest HTTP body, from clients and upstreams."),
  stdioLineBytes: count(stdioLineLimit).describe("Longest line from a child process or standard input."),
  headerBytes: count(16_384).describe("Largest total size of request headers."),
  depth: count(defaultLimits.maxDepth, 1000).describe("Deepest nesting of JSON in a message."),
  batch: count(defaultLimits.maxBatch).describe("Maximum number of messages in a batch (revision 2025-03-26)."),
  requests: count(1000).describe(
    "Maximum number of concurrent client requests, and as many notifications that are on their way.",
  ),
  requestsPerPrincipal: share("concurrent requests of one principal", "half", "requests"),
  pendingPerScope: count(1000).describe(
    "Maximum number of requests waiting for a response in one session or connection.",
  ),
  pending: count(10_000).describe(
    "Maximum number of requests waiting for a response on one route, including requests from servers and `subscriptions/listen`.",
  ),
  pendingPerPrincipal: share("such requests of one principal on one route", "a quarter", "pending"),
  sessions: count(1000).describe("Maximum number of open sessions."),
  sessionsPerPrincipal: share("open sessions of one principal", "a fifth", "sessions"),
  suspendedCalls: count(10_000).describe(
    "Maximum number of calls of modern clients that wait for the answer to a question of a legacy server.",
  ),
  suspendedCallsPerPrincipal: share("such calls of one principal", "a tenth", "suspendedCalls"),
  queueBytes: count(1_048_576).describe("Maximum bytes queued for a slow reader before it is disconnected."),
  bytes: count(536_870_912).describe(
    "Maximum bytes of all messages of clients in one process: bodies on their way, requests without an answer, answers that are not read, held messages and stored events. Messages under 16 KiB do not count.",
  ),
  bytesPerPrincipal: share("such bytes of one principal", "half", "bytes"),
  eventStore: eventStoreConfig.prefault({}).describe("Events kept so that clients can resume streams; 0 keeps none."),
});

/** The part of a limit that one principal may take by default. */
const shares = { half: 2, "a quarter": 4, "a fifth": 5, "a tenth": 10 } as const;

/** A limit for one principal; without a value it is a part of the limit for all. */
function share(what: string, part: keyof typeof shares, of: string) {
  return z
    .int()
    .min(1)
    .max(Number.MAX_SAFE_INTEGER)
    .optional()
    .describe(`Maximum number of ${what}. Default: ${part} of \`${of}\`.`);
}

type ParsedLimits = z.output<typeof limitsConfig>;

/** All limits; those for one principal are always below those for all, unless the configuration says otherwise. */
export function resolveLimits(limits: ParsedLimits) {
  const part = (total: number, of: keyof typeof shares): number => Math.max(1, Math.floor(total / shares[of]));
  return {
    ...limits,
    bytesPerPrincipal: limits.bytesPerPrincipal ?? part(limits.bytes, "half"),
    requestsPerPrincipal: limits.requestsPerPrincipal ?? part(limits.requests, "half"),
    pendingPerPrincipal: limits.pendingPerPrincipal ?? part(limits.pending, "a quarter"),
    sessionsPerPrincipal: limits.sessionsPerPrincipal ?? part(limits.sessions, "a fifth"),
    suspendedCallsPerPrincipal: limits.suspendedCallsPerPrincipal ?? part(limits.suspendedCalls, "a tenth"),
  };
}

function count(fallback: number, largest = Number.MAX_SAFE_INTEGER) {
  return z.int().min(1).max(largest).default(fallback);
}

const meanings = {
  connect: "Time to connect to an upstream.",
  quick:
    "Inactivity timeout of lists, the handshake and other quick requests; a server must accept notifications within it.",
  tool: "Inactivity timeout of tool calls, resource reads and prompts; progress restarts it.",
  human: "Inactivity timeout of requests that wait for a person or a model.",
  hard: "Total timeout of every request, regardless of progress.",
  streamKeepAlive: "Send a comment on an event stream after this much silence.",
} as const;

/** The `timeouts` part of the configuration. */
export const timeoutsConfig = z.strictObject({
  body: durationField("1m").describe(
    "Time for a client to send a whole request with its body; after that it gets a 408. Changes need a restart.",
  ),
  connect: durationField("10s").describe(meanings.connect),
  quick: durationField("30s").describe(meanings.quick),
  tool: durationField("5m").describe(meanings.tool),
  human: durationField("30m").describe(meanings.human),
  hard: durationField("1h").describe(meanings.hard),
  streamKeepAlive: durationField("15s").describe(meanings.streamKeepAlive),
});

/** The `timeouts` part of a route: those that differ, and those of single tools. */
export const routeTimeoutsConfig = z.strictObject({
  connect: duration.optional().describe(meanings.connect),
  quick: duration.optional().describe(meanings.quick),
  tool: duration.optional().describe(meanings.tool),
  human: duration.optional().describe(meanings.human),
  hard: duration.optional().describe(meanings.hard),
  streamKeepAlive: duration.optional().describe(meanings.streamKeepAlive),
  tools: z.record(z.string(), duration).default({}).describe("Inactivity timeouts of single tools, by name."),
});

/** The `shutdown` part of the configuration. */
export const shutdownConfig = z.strictObject({
  grace: anyDuration
    .prefault("10s")
    .describe("How long running calls may finish when the process stops, or when a reload removes their server."),
  readinessDelay: anyDuration
    .prefault("0s")
    .describe(
      "How long `/readyz` answers 503 while requests are still served, before new ones are refused. Give load balancers time to notice.",
    ),
});
