import * as z from "zod";

import { durationField } from "../lib/duration.ts";

/** The `sessions` part of the configuration. */
export const sessionsConfig = z.strictObject({
  idleTimeout: durationField("1h").describe("End a session after this time without a message or an open stream."),
  maxAge: durationField("24h").describe("End a session after this time."),
});

/** The `limits.eventStore` part of the configuration. */
export const eventStoreConfig = z.strictObject({
  streamBytes: bytes(262_144).describe("Bytes of events to keep for one stream."),
  principalBytes: bytes(16_777_216).describe("Bytes of events to keep for all streams of one principal."),
  totalBytes: bytes(67_108_864).describe("Bytes of events to keep in the whole process."),
});

function bytes(fallback: number) {
  return z.int().min(0).default(fallback);
}
