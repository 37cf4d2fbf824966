import * as z from "zod";

import { credentialsConfig, routeAuthConfig } from "../auth/config.ts";
import { headerName } from "../lib/text/header-name.ts";
import { policyConfig } from "../policy/config.ts";
import { validationLevels } from "../protocol/validation/validate.ts";
import { createUpstreamConfig } from "../transports/config.ts";
import { federationConfig, memberConfig, memberName, overridesConfig, viewConfig } from "./federation.ts";
import { interceptorConfig } from "./interceptors.ts";
import { ratesConfig, routeTimeoutsConfig } from "./limits.ts";
import { corsConfig } from "./listen.ts";

const setting = z.enum(["off", "warn", "enforce"]).optional();

/** The `validation` part of the configuration and of a route. */
export const validationConfig = z.union(
  [
    z.enum(validationLevels),
    z.strictObject({
      method: setting.describe("Methods, their directions, and whether they are requests or notifications."),
      schema: setting.describe("Parameters and results, by the schema of the protocol revision."),
      semantic: setting.describe("Capabilities that were declared, ids in flight, and results that ask for input."),
    }),
  ],
  {
    error: `expected one of ${validationLevels.join(", ")}, or an object that sets single levels to off, warn or enforce`,
  },
);

/** First segments of the gateway's own paths, which are not route names. */
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

/** The server behind a route. */
export const upstreamConfig = createUpstreamConfig(credentialsConfig);

/** The name of a view, which is a segment of its URL. */
const viewName = routeName;

/** One entry of `routes`. */
export const routeConfig = z.strictObject({
  upstream: upstreamConfig.optional().describe("The server behind this route."),
  upstreams: z
    .record(memberName, memberConfig)
    .optional()
    .describe("Several servers behind this route, by name, instead of `upstream`. Lists follow their order."),
  overrides: overridesConfig.prefault({}).describe("Changes to the tools that the `upstreams` of this route offer."),
  views: z
    .record(viewName, viewConfig)
    .prefault({})
    .describe("Parts of what the `upstreams` of this route offer, each served at `/<route>/<view>/mcp`."),
  federation: federationConfig.prefault({}).describe("How the `upstreams` of this route become one server."),
  mode: z
    .enum(["enforce", "observe"])
    .default("enforce")
    .describe(
      "`enforce`: refuse messages that violate the protocol. `observe`: pass bytes through unchanged and only report violations.",
    ),
  validation: validationConfig
    .optional()
    .describe("How thoroughly messages are checked on this route, instead of the general `validation`."),
  interceptors: z
    .array(interceptorConfig)
    .default([])
    .describe("Interceptors of this route, besides the general ones."),
  forwardHeaders: z
    .array(headerName)
    .prefault(["x-request-id"])
    .describe("Client headers to forward to the upstream; all others are dropped."),
  timeouts: routeTimeoutsConfig.prefault({}).describe("Timeouts of this route, instead of the general ones."),
  rates: ratesConfig.optional().describe("Rate limits of this route, instead of the general `rates`."),
  auth: routeAuthConfig
    .prefault({})
    .describe("Authentication of this route, where it differs from the general `auth`."),
  policy: policyConfig.optional().describe("Policy of this route, instead of the general `policy`."),
  cors: corsConfig.optional().describe("Browser origins allowed on this route, instead of the general `cors`."),
});

const noServers = "has no servers: expected one or more, each with a name";
const missingUpstream = "is missing: expected a server, or several in `upstreams`";

/** One entry of `routes`, with the server or the servers that it needs. */
export const completeRouteConfig = routeConfig.superRefine(({ upstream, upstreams, overrides, views }, context) => {
  if (upstreams === undefined && Object.keys(views).length > 0)
    context.addIssue({ code: "custom", path: ["views"], message: "needs `upstreams`, also for one server" });
  if (upstreams === undefined && Object.keys(overrides.tools).length > 0)
    context.addIssue({ code: "custom", path: ["overrides"], message: "needs `upstreams`, also for one server" });
  const hasSeveral = upstreams !== undefined && Object.keys(upstreams).length > 0;
  if (upstream === undefined && !hasSeveral) {
    const [key, message] = upstreams === undefined ? ["upstream", missingUpstream] : ["upstreams", noServers];
    context.addIssue({ code: "custom", path: [key], message });
  }
  if (upstream !== undefined && upstreams !== undefined)
    context.addIssue({ code: "custom", message: "`upstream` and `upstreams` cannot be combined" });
});
