import * as z from "zod";

import { duration } from "../lib/duration.ts";

/** One entry of `interceptors`: a file with interceptors, and which messages they see. */
export const interceptorConfig = z.strictObject({
  file: z
    .string()
    .min(1)
    .describe("Module in TypeScript or JavaScript, relative to the configuration file. Loaded again when it changes."),
  match: z
    .string()
    .optional()
    .describe(
      "Only messages that match this filter of `headgate traffic`, such as `tool:delete_*`; requests and their answers both match.",
    ),
  onFailure: z
    .enum(["block", "continue"])
    .optional()
    .describe(
      "What happens to a message when the interceptor throws or takes too long. Default: what the file says, otherwise `block`.",
    ),
  mode: z
    .enum(["enforce", "audit"])
    .optional()
    .describe(
      "`audit` only reports what the interceptor would have done. Default: what the file says, otherwise `enforce`.",
    ),
  timeout: duration
    .optional()
    .describe("How long a decision may take. Default: what the file says, otherwise 2 seconds."),
});

/** An entry with its absolute path. */
export interface InterceptorConfig extends z.output<typeof interceptorConfig> {
  /** Its path in the configuration, such as `interceptors[0]`. */
  readonly place: string;
  /** The route that it belongs to; undefined for all. */
  readonly route: string | undefined;
}
