import * as z from "zod";

const ruleOutcome = z.strictObject({
  id: z.string(),
  action: z.enum(["deny", "allow", "apply"]),
  shadow: z.boolean(),
  condition: z.string(),
  outcome: z.enum(["true", "false", "failed"]),
  problem: z.string().optional(),
});

const phaseExplanation = z.strictObject({
  phase: z.enum(["request", "response"]),
  effect: z.enum(["allow", "change", "deny"]),
  rule: z.string().optional().describe("The rule that decided; absent if none did."),
  reason: z.string().optional().describe("The message to the agent."),
  rules: z.array(ruleOutcome).readonly().describe("Every rule that was evaluated, in order."),
  read: z
    .array(z.strictObject({ path: z.string(), value: z.string().optional() }))
    .readonly()
    .describe("What the decision read; values are JSON and need the right `bodies`."),
  missing: z.array(z.string()).readonly().describe("What the decision read and the recording does not contain."),
});

/** Why a message is allowed or refused. */
export const explanationSchema = z.strictObject({
  policy: z.enum(["none", "rules", "remote", "unrecorded"]).describe("What decides on this route now."),
  phases: z.array(phaseExplanation).readonly(),
});

/** Its type. */
export type PolicyExplanation = z.output<typeof explanationSchema>;
