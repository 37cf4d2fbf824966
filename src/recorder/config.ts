import * as z from "zod";

import { longDuration } from "../lib/duration.ts";
import { pointerPatternProblem } from "../lib/text/pointer-pattern.ts";

const pointer = z
  .string()
  .regex(/^(?:\/(?:[^/~]|~[01])*)+$/u, {
    error: "expected a JSON Pointer such as `/params/arguments/ssn`; `*` stands for any member or element",
  })
  .superRefine((pattern, context) => {
    const message = pointerPatternProblem(pattern) ?? rootProblem(pattern);
    if (message !== undefined) context.addIssue({ code: "custom", message });
  });

/** Pointers begin at the message. */
function rootProblem(pattern: string): string | undefined {
  if (/^\/(?:params|result|error|method|id)(?:\/|$)|^\/\*/u.test(pattern)) return undefined;
  return "matches no message: pointers begin at the message, with `/params`, `/result` or `/error`";
}

/** The `record` part of the configuration. */
export const recordConfig = z.union([
  z.literal(false),
  z
    .strictObject({
      file: z
        .string()
        .min(1)
        .optional()
        .describe("Path of the SQLite file. `headgate run` has a default in the user's data folder."),
      postgres: z
        .string()
        .regex(/^postgres(?:ql)?:\/\//u, { error: "must begin with postgres:// or postgresql://" })
        .meta({ writeOnly: true })
        .optional()
        .describe("URL of a PostgreSQL database to use instead of a file, for several gateways."),
      onFailure: z
        .enum(["drop", "refuse"])
        .default("drop")
        .describe(
          "What to do with traffic that cannot be recorded: `drop` forwards it and counts the lost frames; `refuse` answers requests with an error, and holds every request and every answer until it is on disk.",
        ),
      queueFrames: z
        .int()
        .min(100)
        .max(1_000_000)
        .default(50_000)
        .describe("Maximum number of frames that wait to be written. Frames beyond it are dropped and counted."),
      queueBytes: z
        .int()
        .min(65_536)
        .default(33_554_432)
        .describe("Maximum bytes of bodies that wait to be written. From three quarters on, bodies are left out."),
      bodyBytes: z
        .int()
        .min(0)
        .default(262_144)
        .describe("Largest body to store. Larger messages are recorded without their body."),
      retention: z
        .strictObject({
          maxAge: longDuration.prefault("7d").describe("How long recordings are kept."),
          maxBytes: z
            .int()
            .min(1_048_576)
            .default(2_147_483_648)
            .describe("Maximum size of the store. The oldest recordings are deleted first."),
          routes: z.record(z.string(), longDuration).default({}).describe("`maxAge` of single routes, by route name."),
        })
        .prefault({})
        .describe("When recordings are deleted."),
      redact: z
        .strictObject({
          keys: z
            .array(z.string().min(1))
            .default([])
            .describe("Names of further members whose values are redacted. Case, hyphens and underscores are ignored."),
          paths: z
            .array(pointer)
            .default([])
            .describe("JSON Pointers of further values to redact. `*` stands for any member or element."),
          headers: z
            .array(z.string().min(1).toLowerCase())
            .default([])
            .describe("Further HTTP headers to store. Headers with credentials are never stored."),
          personalData: z
            .boolean()
            .default(true)
            .describe("Redact email addresses and card, account and phone numbers."),
        })
        .prefault({})
        .describe("What to redact before anything is stored. Keys, tokens and passwords always are."),
    })
    .superRefine(({ file, postgres }, context) => {
      if (file !== undefined && postgres !== undefined)
        context.addIssue({ code: "custom", message: "cannot be combined with `postgres`", path: ["file"] });
    }),
]);

/** The `drift` part of the configuration. */
export const driftConfig = z.strictObject({
  lock: z.string().min(1).describe("Path of the lock file that `headgate drift approve` writes."),
  mode: z
    .enum(["warn", "hide", "block"])
    .default("warn")
    .describe(
      "What to do with tools, prompts and resources that differ from the lock file: `warn` logs them, `hide` also omits them from lists, `block` also refuses calls.",
    ),
});

/** The `drift` part as it was parsed. */
export type DriftConfig = z.output<typeof driftConfig>;
