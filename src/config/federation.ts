import * as z from "zod";

import { credentialsConfig } from "../auth/config.ts";
import { textHint } from "../policy/cel/config.ts";
import { checkExpression } from "../policy/cel/expression.ts";
import { durationField } from "../lib/duration.ts";
import { createUpstreamForms, upstreamFormError } from "../transports/config.ts";

const nameForm = /^[\dA-Za-z](?:[\w-]*[\dA-Za-z])?$/u;

/** The name of a server among the `upstreams` of a route. */
export const memberName = z
  .string()
  .max(32)
  .regex(nameForm, { error: "is not a name: letters, digits, and `_` or `-` between them" });

const memberShape = {
  prefix: z
    .union([z.literal(""), memberName])
    .optional()
    .describe("Prefix of the names of its tools and prompts. Default: the name of the server. Empty for no prefix."),
  title: z.string().min(1).max(100).optional().describe("Display name. Default: its name."),
  tools: z
    .strictObject({
      allow: z.array(z.string().min(1)).describe("Names as the server writes them; `*` stands for any characters."),
    })
    .optional()
    .describe("Which of its tools are offered. Default: all."),
  uris: z
    .enum(["keep", "prefix"])
    .default("keep")
    .describe(
      "`prefix`: URIs of its resources get its prefix everywhere, as in `github+file:///a` and `ui://github+a`.",
    ),
  required: z
    .boolean()
    .default(false)
    .describe("Whether a list without this server is an error. Otherwise the list says what is missing."),
};

const { http, stdio, demo, recordings, inProcess } = createUpstreamForms(credentialsConfig);

/** One entry of `upstreams`. */
export const memberConfig = z.union(
  [
    http.extend(memberShape).transform((member) => ({ type: "http" as const, ...member })),
    stdio.extend(memberShape).transform((member) => ({ type: "stdio" as const, ...member })),
    demo.extend(memberShape).transform(({ demo: _demo, ...member }) => ({ type: "demo" as const, ...member })),
    recordings
      .extend(memberShape)
      .transform(({ recordings: _recordings, ...member }) => ({ type: "recordings" as const, ...member })),
    inProcess.extend(memberShape).transform((member) => ({ type: "in-process" as const, ...member })),
  ],
  { error: upstreamFormError },
);

/** `federation`: how several servers become one. */
export const federationConfig = z.strictObject({
  separator: z
    .string()
    .regex(/^[\w./-]{1,8}$/u, { error: "expected 1 to 8 letters, digits, `_`, `-`, `.` or `/`" })
    .default("__")
    .describe("Text between prefix and name."),
  nameLength: z
    .int()
    .min(32)
    .max(128)
    .default(64)
    .describe("Longest name of a tool or prompt. Longer names are cut and end in a digest."),
  listing: z
    .strictObject({
      wait: durationField("3s").describe("How long a list, a handshake or a subscription waits for a server."),
      stale: durationField("10m").describe("How long to use the last known list of a server that fails."),
      page: z.int().min(1).max(10_000).default(1000).describe("Maximum number of entries per page."),
      partial: z
        .enum(["allow", "refuse"])
        .default("allow")
        .describe("Whether a list may be served without a server that fails; `_meta` then names it."),
    })
    .prefault({})
    .describe("How lists are merged."),
  instructions: z
    .union([z.strictObject({ from: memberName.describe("Name of the server.") }), z.string()])
    .default("merged")
    .describe(
      "What clients get as `instructions`: `merged` for those of all servers, those `from` one server, or your own text.",
    ),
  serverInfo: z
    .strictObject({
      name: z.string().min(1).describe("Name of the server."),
      version: z.string().min(1).default("1").describe("Version of the server."),
      title: z.string().min(1).optional().describe("Display name."),
    })
    .optional()
    .describe("How the federation names itself. Default: the name of the route."),
});

const fixedValue = z
  .unknown()
  .superRefine((value, context) => {
    const problem = typeof value === "string" ? checkExpression(value, "call", "value") : undefined;
    if (problem !== undefined)
      context.addIssue({
        code: "custom",
        message: `${problem.message}; ${textHint}`,
        params: { offset: problem.offset },
      });
  })
  .optional()
  .describe("Value for every call; clients do not see the argument. A string is CEL, anything else a literal value.");

const argumentOverride = z.strictObject({
  fixed: fixedValue,
  default: z.unknown().optional().describe("Value for calls without the argument."),
  hide: z.boolean().default(false).describe("Hide the argument; clients cannot send it."),
  description: z.string().optional().describe("New description of the argument."),
  enum: z.array(z.unknown()).min(1).optional().describe("The only values that clients may send."),
});

/** `overrides`: changes to the tools that servers offer. */
export const overridesConfig = z.strictObject({
  tools: z
    .record(
      z.string().min(1),
      z.strictObject({
        name: z
          .string()
          .regex(/^[\w./-]{1,128}$/u, { error: "is not a name: up to 128 letters, digits, `_`, `-`, `.` and `/`" })
          .optional()
          .describe("New name."),
        title: z.string().optional().describe("New display name."),
        description: z.string().optional().describe("New description."),
        annotations: z.record(z.string(), z.unknown()).optional().describe("Hints that replace those of the server."),
        hide: z.boolean().default(false).describe("Hide the tool from clients."),
        arguments: z.record(z.string().min(1), argumentOverride).prefault({}).describe("Arguments by name."),
      }),
    )
    .prefault({})
    .describe("Tools, by the names that clients would see, such as `github__create_issue`."),
});

const namePatterns = z.array(z.string().min(1)).default([]);

/** One entry of `views`: a part of what a route offers. */
export const viewConfig = z.strictObject({
  tools: namePatterns.describe("Names of tools as clients see them; `*` stands for any characters. Default: none."),
  prompts: namePatterns.describe("Names of prompts. Default: none."),
  resources: namePatterns.describe("URIs and URI templates of resources. Default: none."),
  discovery: z
    .enum(["list", "search"])
    .default("list")
    .describe("`search`: clients see two tools, one that searches for the others and one that calls them."),
  when: z
    .string()
    .superRefine((text, context) => {
      const problem = checkExpression(text, "call", "bool");
      if (problem !== undefined)
        context.addIssue({ code: "custom", message: problem.message, params: { offset: problem.offset } });
    })
    .optional()
    .describe("CEL: if true, callers at the path of the route get this view. The first match wins."),
});
