import * as z from "zod";

import { durationField } from "../../lib/duration.ts";

/** The `audit` section of the configuration: decisions as JSON lines in a file of their own. */
export const auditConfig = z.strictObject({
  file: z.string().min(1).describe("Path of the file; its folder must exist."),
  maxBytes: z.int().min(1024).default(104_857_600).describe("Rotate the file at this size."),
  maxAge: durationField("24h").describe("Rotate the file at this age."),
  keep: z.int().min(0).max(10_000).default(14).describe("Rotated files to keep."),
  queueBytes: z
    .int()
    .min(1024)
    .default(8_388_608)
    .describe("Most bytes waiting to be written; decisions beyond that are dropped and counted."),
  onFailure: z
    .enum(["drop", "refuse"])
    .default("drop")
    .describe("While decisions cannot be written: drop them and let messages pass, or refuse messages."),
});

/** A configured audit stream. */
export type AuditConfig = z.output<typeof auditConfig>;
