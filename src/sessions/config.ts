import * as z from "zod";

/** A field for a duration in milliseconds with its default as people write it; the configuration hands its own in. */
type DurationField = (fallback: string) => z.ZodPrefault<z.ZodType<number, string | number>>;

/** The `sessions` part of the configuration. */
export function createSessionsConfig(duration: DurationField) {
  return z.strictObject({
    idle: duration("1h").describe("How long a session lives without a message or an open stream."),
    age: duration("24h").describe("How long a session lives at most."),
  });
}

/** The `limits.eventStore` part of the configuration. */
export const eventStoreConfig = z.strictObject({
  streamBytes: bytes(262_144).describe("Bytes of events kept for one stream."),
  principalBytes: bytes(16_777_216).describe("Bytes of events kept for all streams of a principal."),
  totalBytes: bytes(67_108_864).describe("Bytes of events kept in the whole process."),
});

function bytes(fallback: number) {
  return z.int().min(0).default(fallback);
}
