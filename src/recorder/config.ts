import * as z from "zod";

const pointer = z.string().regex(/^(?:\/(?:[^/~]|~[01])*)+$/u, {
  error: "is not a JSON Pointer such as `/params/arguments/ssn`; `*` stands for any member or element",
});

const days = z.number().positive().max(36_500);

/** The `record` part of the configuration. */
export const recordConfig = z.union([
  z.literal(false),
  z
    .strictObject({
      file: z
        .string()
        .min(1)
        .optional()
        .describe("Path of the SQLite file; the command has one of its own in the user's data folder."),
      postgres: z
        .string()
        .min(1)
        .meta({ writeOnly: true })
        .optional()
        .describe("Connection URL of a PostgreSQL database in its place, for several gateways that write."),
      onFailure: z
        .enum(["drop", "record-or-refuse"])
        .default("drop")
        .describe(
          "What happens when something cannot be recorded: it is lost and counted, or its request is answered with an error; with `record-or-refuse` every answer waits until it is on disk.",
        ),
      queueFrames: z
        .int()
        .min(100)
        .max(1_000_000)
        .default(50_000)
        .describe("Most frames that wait to be written; what comes beyond that is lost and counted."),
      queueBytes: z
        .int()
        .min(65_536)
        .default(33_554_432)
        .describe("Most bytes of bodies that wait; bodies are left out before, from three quarters of it on."),
      bodyBytes: z
        .int()
        .min(0)
        .default(262_144)
        .describe("Largest body that is kept; of larger messages everything else is."),
      retention: z
        .strictObject({
          days: days.default(7).describe("For how many days recordings are kept."),
          bytes: z
            .int()
            .min(1_048_576)
            .default(2_147_483_648)
            .describe("Size of the store from which on the oldest go."),
          routes: z
            .record(z.string(), days)
            .default({})
            .describe("For how many days those of single routes are kept instead, by the name of the route."),
        })
        .prefault({})
        .describe("How long recordings stay."),
      redact: z
        .strictObject({
          keys: z
            .array(z.string().min(1))
            .default([])
            .describe("More names of arguments and members whose values are never kept, in any spelling."),
          paths: z
            .array(pointer)
            .default([])
            .describe("JSON Pointers of values in messages that are never kept; `*` is any member or element."),
          headers: z
            .array(z.string().min(1).toLowerCase())
            .default([])
            .describe("More headers that are kept; those of credentials never are."),
          personalData: z
            .boolean()
            .default(true)
            .describe("Whether mail addresses and numbers of cards, accounts and telephones are left out."),
        })
        .prefault({})
        .describe("What is left out before anything is kept; keys, tokens and passwords always are."),
    })
    .superRefine(({ file, postgres }, context) => {
      if (file !== undefined && postgres !== undefined)
        context.addIssue({ code: "custom", message: "needs one of `file` and `postgres`", path: ["file"] });
    }),
]);

/** The `drift` part of the configuration. */
export const driftConfig = z.strictObject({
  lock: z.string().min(1).describe("Path of the file with what was approved, as `headgate drift approve` writes it."),
  mode: z
    .enum(["warn", "hide", "block"])
    .default("warn")
    .describe(
      "What becomes of tools, prompts and resources that are not as approved: logged, taken out of lists as well, or their calls refused too.",
    ),
});

/** How drift is dealt with, as it is configured. */
export type DriftConfig = z.output<typeof driftConfig>;
