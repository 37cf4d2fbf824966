import { availableParallelism } from "node:os";

import * as z from "zod";

import { authConfig } from "../auth/config.ts";
import { clusterConfig, stateConfig } from "../cluster/config.ts";
import { auditConfig } from "../policy/audit/audit-stream.ts";
import { policyConfig } from "../policy/config.ts";
import { driftConfig, recordConfig } from "../recorder/config.ts";
import { sessionsConfig } from "../sessions/session.ts";
import { logConfig } from "../telemetry/log.ts";
import { interceptorConfig } from "./interceptors.ts";
import { limitsConfig, ratesConfig, shutdownConfig, timeoutsConfig } from "./limits.ts";
import { adminConfig, corsConfig, listenConfig } from "./listen.ts";
import { mcpServerConfig } from "./mcp-servers.ts";
import { completeRouteConfig, routeName, upstreamConfig, validationConfig } from "./routes.ts";

/** The schema of the configuration. Types, checks, defaults, the JSON schema and the reference page come from it. */
export const configSchema = z.strictObject({
  $schema: z.string().optional().describe("For editors; ignored."),
  listen: listenConfig.prefault({}).describe("Where clients connect."),
  admin: adminConfig.describe(
    "Where operators connect: `/console`, `/api/v1`, `/readyz` and `/metrics`; `false` to turn them off.",
  ),
  auth: authConfig.prefault({}).describe("How callers are authenticated; a route can have its own."),
  policy: policyConfig.optional().describe("What callers may do and see, on routes without a `policy` of their own."),
  audit: auditConfig.optional().describe("A file for policy decisions. Default: decisions are only logged."),
  record: z
    .union([z.literal(true).transform(() => recordConfig.parse({})), recordConfig])
    .optional()
    .describe(
      "Whether and how traffic is recorded: `true` for the defaults, `false` to record nothing. Without this key, `headgate run` with a configuration file records nothing, and without one records to a file in your data folder.",
    ),
  drift: driftConfig
    .optional()
    .describe("What to do about tools, prompts and resources that differ from their approved definitions."),
  log: logConfig.prefault({}).describe("Logging, to standard error."),
  limits: limitsConfig.prefault({}).describe("Size and concurrency limits."),
  rates: ratesConfig
    .prefault({})
    .describe(
      "Rate limits, counted per route; a route can have its own. Default: none. Progress and cancellation notifications do not count.",
    ),
  cors: corsConfig.prefault({}).describe("Cross-origin requests of browsers; a route can have its own."),
  validation: validationConfig
    .optional()
    .describe(
      "How thoroughly messages are checked, in both directions: `envelope`, `method`, `schema` or `semantic`, each including those before. A route with `mode: enforce` refuses what fails a check; one with `mode: observe` only reports it. An object sets single levels to `off`, `warn` or `enforce`. Default: `method`, and `envelope` with `mode: observe`.",
    ),
  interceptors: z
    .array(interceptorConfig)
    .default([])
    .describe("Your own steps for messages of all routes: change, block, answer or hold them."),
  sessions: sessionsConfig.prefault({}).describe("Lifetime of sessions."),
  cluster: clusterConfig
    .optional()
    .describe(
      "How gateways with the same `state` forward requests to each other. Needs `state.redis` or `state.postgres`.",
    ),
  workers: z
    .union([z.literal("auto").transform(() => availableParallelism()), z.int().min(1).max(256)])
    .default(1)
    .describe(
      "How many processes `headgate run` serves clients with, on one port; `auto` for one per core. Sessions, rates, recording, metrics and reloads are shared.",
    ),
  state: stateConfig.prefault({}).describe("State that outlives the process, so that sessions survive a restart."),
  timeouts: timeoutsConfig.prefault({}).describe("Timeouts; a route can have its own."),
  shutdown: shutdownConfig.prefault({}).describe("How the process ends."),
  routes: z
    .record(routeName, completeRouteConfig)
    .prefault({})
    .describe("Servers by name, each served at `/<name>/mcp`; a single one also at `/mcp`."),
  upstream: upstreamConfig.optional().describe("A single server without a name, served at `/mcp`."),
  federate: z
    .boolean()
    .default(false)
    .describe("Serve all `mcpServers` as one server at `/mcp`, with names that begin with the name of their server."),
  mcpServers: z
    .record(z.string(), mcpServerConfig)
    .prefault({})
    .describe(
      "Servers in the format of MCP clients, each a route. Here `${NAME}` reads the environment, as it does for clients; unknown keys are ignored with a warning.",
    ),
});

/** A configuration as it is written in a file or passed to the library. */
export type ConfigInput = z.input<typeof configSchema>;

/** A validated configuration with defaults, before its routes are resolved. */
export type ParsedConfig = z.output<typeof configSchema>;
