import * as z from "zod";

import { anyDuration, duration, durationField } from "./duration.ts";

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
  tools: z
    .record(z.string(), duration)
    .default({})
    .describe("Inactivity limits of single tools, by tool name."),
});

/** The `shutdown` part of the configuration. */
export const shutdownConfig = z.strictObject({
  grace: anyDuration
    .prefault("10s")
    .describe(
      "How long running calls may finish before the process ends, or before a server is let go that a reload took away.",
    ),
});
