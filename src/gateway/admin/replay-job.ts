import * as z from "zod";

import type { PolicyReport } from "../evaluation/change-report.ts";

/** What a policy would change in recorded traffic. */
const policyReportSchema = z.looseObject({
  exchanges: z.number(),
  same: z.number().describe("Exchanges that would not change."),
  counts: z.record(z.string(), z.number()).describe("Changes by kind."),
  groups: z.array(
    z.looseObject({
      kind: z.string(),
      rule: z.string().optional(),
      method: z.string(),
      target: z.string().optional(),
      detail: z.array(z.string()),
      count: z.number(),
      principals: z.array(z.string()),
      examples: z.array(z.string()).describe("Ids of some exchanges."),
    }),
  ),
}) as unknown as z.ZodType<PolicyReport>;

/** A replay that runs or is over. */
export interface ReplayJob {
  done: number;
  report?: PolicyReport;
  problem?: string;
}

/** {@link ReplayJob} as the API shows it. */
export const replayJobSchema = z.strictObject({
  state: z.enum(["running", "done", "failed"]),
  done: z.number().describe("Exchanges that were tried so far."),
  report: policyReportSchema.optional(),
  problem: z.string().optional(),
});
