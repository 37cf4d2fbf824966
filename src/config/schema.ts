import * as z from "zod";

import { createAuthConfig } from "../auth/config.ts";
import { auditConfig } from "../policy/audit/config.ts";
import { policyConfig } from "../policy/config.ts";
import { driftConfig, recordConfig } from "../recorder/config.ts";
import { createSessionsConfig } from "../sessions/config.ts";
import { logConfig } from "../telemetry/config.ts";
import { headerName } from "../transports/config.ts";
import { anyDuration, durationField } from "../lib/duration.ts";
import { limitsConfig, shutdownConfig, timeoutsConfig } from "./limits.ts";
import { adminConfig, listenConfig } from "./listen.ts";
import { mcpServerConfig } from "./mcp-servers.ts";
import { routeConfig, routeName, upstreamConfig } from "./routes.ts";

/** The one schema of the configuration: types, checks, defaults, JSON schema and reference page come from it. */
export const configSchema = z.strictObject({
  $schema: z.string().optional().describe("For editors; not looked at."),
  listen: listenConfig.prefault({}).describe("Where clients connect."),
  admin: adminConfig.describe(
    "Where `/readyz` and `/metrics` are served, apart from the clients; `false` for nowhere.",
  ),
  auth: createAuthConfig({ anyDuration, headerName })
    .prefault({})
    .describe("Who may call; a route can have its own rules."),
  policy: policyConfig
    .optional()
    .describe("What callers may do and see, on every route that has no `policy` of its own."),
  audit: auditConfig
    .optional()
    .describe("Where the decisions of policies are written down; nowhere but the log unless given."),
  record: z
    .union([z.literal(true).transform(() => recordConfig.parse({})), recordConfig])
    .optional()
    .describe(
      "Whether and how traffic is recorded: `true` for the defaults, `false` to record nothing. Without this key, `headgate run` with a configuration file records nothing, and without one records to a file in your data folder.",
    ),
  drift: driftConfig
    .optional()
    .describe("What happens when a server offers something else than was approved; nothing unless given."),
  log: logConfig.prefault({}).describe("What is logged, to standard error."),
  limits: limitsConfig.prefault({}).describe("What the gateway takes and holds at most."),
  sessions: createSessionsConfig(durationField).prefault({}).describe("How long sessions live."),
  timeouts: timeoutsConfig.prefault({}).describe("How long things may take; a route can have its own."),
  shutdown: shutdownConfig.prefault({}).describe("How the process ends."),
  routes: z
    .record(routeName, routeConfig)
    .prefault({})
    .describe("Servers by name, each served at `/<name>/mcp`; one alone is served at `/mcp` as well."),
  upstream: upstreamConfig.optional().describe("One server without a name, served at `/mcp`."),
  mcpServers: z
    .record(z.string(), mcpServerConfig)
    .prefault({})
    .describe(
      "Servers in the form that MCP clients use, each a route. `${NAME}` reads the environment here, as it does there; keys of other tools are ignored with a warning.",
    ),
});

/** What may be written in a configuration, or handed to the library. */
export type ConfigInput = z.input<typeof configSchema>;

/** What was written, checked and with defaults, before its routes are put together. */
export type ParsedConfig = z.output<typeof configSchema>;
