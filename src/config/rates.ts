import * as z from "zod";

const rate = z.strictObject({
  perSecond: z.number().positive().max(1_000_000).describe("Messages a second, in the long run."),
  burst: z
    .int()
    .min(1)
    .max(1_000_000)
    .optional()
    .describe("Messages at once after a pause; as many as in a second unless given."),
});

/** How often clients may send, under `limits` for all routes and under a route instead of that. */
export const ratesConfig = z.strictObject({
  principal: rate.optional().describe("All messages of one principal."),
  session: rate.optional().describe("All messages of one session."),
  methods: z
    .record(z.string().min(1), rate)
    .default({})
    .describe(
      "Messages of one principal by method; `*` stands for any text, and a name counts before a pattern.",
    ),
});
