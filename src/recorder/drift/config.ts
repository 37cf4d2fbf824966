import * as z from "zod";

/** The `drift` part of the configuration. */
export const driftConfig = z.strictObject({
  lock: z
    .string()
    .min(1)
    .describe("Path of the file with what was approved, as `headgate drift approve` writes it."),
  mode: z
    .enum(["warn", "hide", "block"])
    .default("warn")
    .describe(
      "What becomes of tools, prompts and resources that are not as approved: logged, taken out of lists as well, or their calls refused too.",
    ),
});

/** How drift is dealt with, as it is configured. */
export type DriftConfig = z.output<typeof driftConfig>;
