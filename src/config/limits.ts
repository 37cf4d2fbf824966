import * as z from "zod";

import { defaultLimits } from "../protocol/message.ts";
import { eventStoreConfig } from "../sessions/config.ts";
import { ratesConfig } from "./rates.ts";

/** The `limits` part of the configuration: what the gateway holds and takes at most. */
export const limitsConfig = z.strictObject({
  bodyBytes: count(defaultLimits.maxBytes).describe("Largest HTTP body of a message, from either side."),
  stdioLineBytes: count(defaultLimits.maxBytes).describe(
    "Longest line of a child process or of standard input.",
  ),
  headerBytes: count(16_384).describe("Largest sum of the headers of a request."),
  depth: count(defaultLimits.maxDepth, 1000).describe("Deepest nesting of a message."),
  batch: count(defaultLimits.maxBatch).describe("Most messages in a batch of revision 2025-03-26."),
  concurrentRequests: count(1000).describe("Most client requests that run at once."),
  perPrincipalRequests: count(500).describe(
    "Most requests of one principal that run at once, counted first, so that a flood only meets its own limit.",
  ),
  pendingPerScope: count(1000).describe(
    "Most requests that wait for an answer in one session or connection.",
  ),
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
