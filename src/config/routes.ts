import * as z from "zod";

import { createCredentialsConfig, routeAuthConfig } from "../auth/config.ts";
import { policyConfig } from "../policy/config.ts";
import { createUpstreamConfig, headerName } from "../transports/config.ts";
import { durationField } from "../lib/duration.ts";
import { corsConfig } from "./listen.ts";
import { ratesConfig, routeTimeoutsConfig } from "./limits.ts";

/** First segments of the gateway's own paths, which no route may take. */
export const reservedNames: ReadonlySet<string> = new Set([
  "mcp",
  "sse",
  "healthz",
  "readyz",
  "metrics",
  ".well-known",
]);

const nameForm = /^[\da-z][\d._a-z-]*$/u;

/** The name of a route, which is a segment of its URL. */
export const routeName = z
  .string()
  .max(100)
  .regex(nameForm, { error: "is not a route name: lower-case letters, digits, `.`, `_` and `-`" })
  .refine((name) => !reservedNames.has(name), {
    error: `is not a route name: ${[...reservedNames].join(", ")} are paths of the gateway`,
  });

/** Where a server is and how it is spoken to. */
export const upstreamConfig = createUpstreamConfig(durationField, createCredentialsConfig({ headerName }));

/** One entry of `routes`. */
export const routeConfig = z.strictObject({
  upstream: upstreamConfig.describe("The server behind this route, in one of the forms of `upstream`."),
  mode: z
    .enum(["enforce", "observe"])
    .default("enforce")
    .describe("Whether a message that breaks the protocol is refused, or passed on and noted."),
  forwardHeaders: z
    .array(headerName)
    .prefault(["x-request-id"])
    .describe("Headers of the client that are passed on to the upstream; no others are."),
  timeouts: routeTimeoutsConfig.prefault({}).describe("Timeouts that differ from the general ones."),
  rates: ratesConfig.optional().describe("How often clients may send on this route, instead of `limits.rates`."),
  auth: routeAuthConfig.prefault({}).describe("Who may call, where that differs from the general `auth`."),
  policy: policyConfig
    .optional()
    .describe("What callers may do and see on this route, instead of the general `policy`."),
  cors: corsConfig.optional().describe("Answers to pages of browsers, instead of those of `listen`."),
});
