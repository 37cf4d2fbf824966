import { z } from "zod";

import { GatewayError } from "../errors.ts";
import type { KitEnvironment } from "./contract.ts";
import { isIpNetwork } from "./http/peer.ts";
import { nearestName } from "./nearest-name.ts";
import { operationNames } from "./operations.ts";

const units = { ms: 1, s: 1000, m: 60_000, h: 3_600_000 } as const;

/** Milliseconds, or a text such as `15s`, `30m`. */
const duration = z
  .union([
    z.number(),
    z.string().regex(/^-?\d+(?:\.\d+)?(?:ms|s|m|h)$/u, 'expected a duration such as "15s"'),
  ])
  .transform((value) => (typeof value === "number" ? value : millisecondsOf(value)));

const transportName = z.enum(["stdio", "http-sse", "streamable-http"]);

const origin = z.string().refine(isOrigin, {
  error:
    "expected an exact origin such as https://ide.example.com; `*` is refused because credentials are allowed",
});

const network = z.string().refine(isIpNetwork, {
  error: "expected an IP address or a network such as 10.0.0.0/8",
});

const entityOverride = z.strictObject({
  requireAuthentication: z.boolean().optional(),
  requiredScopes: z.array(z.string()).optional(),
  enabledTransports: z.array(transportName).optional(),
  description: z.string().optional(),
  allowMutations: z.boolean().optional(),
});

const transport = z.strictObject({
  heartbeatInterval: duration.default(30_000),
  shutdownTimeout: duration.default(10_000),
  loggerCategory: z.string().default("Koan.Transport.Mcp"),
  sseBufferSize: z.int().positive().default(8192),
  sseKeepAliveInterval: duration.default(15_000).transform((value) => (value <= 0 ? 15_000 : value)),
  maxQueuedBytes: z
    .int()
    .positive()
    .default(1024 * 1024),
  maxRequestBytes: z
    .int()
    .positive()
    .default(4 * 1024 * 1024),
  maxBatchSize: z.int().positive().default(20),
});

const rateLimit = z.strictObject({
  callsPerMinute: z.int().positive().default(60),
  streamOpensPerMinute: z.int().positive().default(10),
});

const operation = z.enum(operationNames);

/** Every setting with its default (KO-029 to KO-046, KO-135, KO-136); what depends on others is resolved below. */
export const settingsSchema = z.strictObject({
  environment: z.enum(["development", "test", "production"]).optional(),
  enableStdioTransport: z.boolean().default(true),
  enableHttpSseTransport: z.boolean().default(false),
  enableStreamableHttp: z.boolean().optional(),
  enableRest: z.boolean().optional(),
  httpSseRoute: z.string().default("/mcp").transform(toRoute("/mcp")),
  restRoute: z.string().default("/api").transform(toRoute("/api")),
  requireAuthentication: z.boolean().optional(),
  maxConcurrentConnections: z.int().nonnegative().default(100),
  sseConnectionTimeout: duration.default(30 * 60_000),
  enableCors: z.boolean().default(false),
  allowedOrigins: z.array(origin).default([]),
  publishCapabilityEndpoint: z.boolean().default(true),
  allowedEntities: z.array(z.string()).default([]),
  deniedEntities: z.array(z.string()).default([]),
  entityOverrides: z.record(z.string(), entityOverride).default({}),
  operations: z.array(operation).default(["List", "Get", "Create", "Update", "Delete"]),
  toolShape: z.enum(["perEntity", "generic"]).default("perEntity"),
  maxPageSize: z.int().min(1).max(200).default(200),
  showAllTools: z.boolean().default(false),
  strict: z.boolean().default(false),
  stdioScopes: z.array(z.string()).optional(),
  transport: transport.prefault({}),
  enableRateLimiting: z.boolean().default(false),
  rateLimit: rateLimit.prefault({}),
  requireHttps: z.boolean().optional(),
  trustedProxies: z.array(network).default([]),
  allowQueryToken: z.boolean().optional(),
  publicUrl: z.url().optional(),
});

/** Settings as code, file and environment may give them. */
export type KitSettingsInput = z.input<typeof settingsSchema>;

type Parsed = z.output<typeof settingsSchema>;

/** All settings with nothing left open; durations are milliseconds. */
export interface KitSettings extends Readonly<
  Omit<
    Parsed,
    "environment" | "enableStreamableHttp" | "enableRest" | "requireAuthentication" | "requireHttps"
  >
> {
  /** Production or a container (KO-136). */
  readonly deployed: boolean;
  /** For messages: `production`, `container`, `test` or `development`. */
  readonly environmentName: string;
  readonly enableStreamableHttp: boolean;
  readonly enableRest: boolean;
  readonly requireAuthentication: boolean;
  /** Whether the file or the code said so, or the environment decided. */
  readonly isAuthenticationExplicit: boolean;
  readonly requireHttps: boolean;
  /** The scopes of the stdio caller; undefined means all that are declared (KO-138). */
  readonly stdioScopes?: string[] | undefined;
  /** Unset: safe ones only, as KO-103 says. */
  readonly allowQueryToken?: boolean | undefined;
  /** The kit's address as clients know it, where the request does not tell. */
  readonly publicUrl?: string | undefined;
}

/** Checks settings and fills in what is left out; a wrong or unknown key is a `config_invalid` error with its place. */
export function parseSettings(input: unknown, environment: KitEnvironment): KitSettings {
  const result = settingsSchema.safeParse(input);
  if (!result.success) {
    throw new GatewayError("config_invalid", `server kit settings: ${describeIssues(result.error.issues)}`);
  }
  const parsed = result.data;
  const deployed =
    parsed.environment === undefined ? environment.deployed : parsed.environment === "production";
  const isHttpOn = parsed.enableHttpSseTransport;
  const enableStreamableHttp = parsed.enableStreamableHttp ?? isHttpOn;
  return {
    ...parsed,
    deployed,
    environmentName: parsed.environment ?? environment.name,
    enableStreamableHttp,
    enableRest: parsed.enableRest ?? (isHttpOn || enableStreamableHttp),
    requireAuthentication: parsed.requireAuthentication ?? deployed,
    isAuthenticationExplicit: parsed.requireAuthentication !== undefined,
    requireHttps: parsed.requireHttps ?? deployed,
  };
}

function describeIssues(issues: readonly z.core.$ZodIssue[]): string {
  return issues
    .flatMap((issue) => {
      const place = issue.path.map(String).join(".");
      if (issue.code !== "unrecognized_keys") return [`${place}: ${issue.message}`];
      return issue.keys.map((key) => {
        const meant = nearestName(key, keysAt(issue.path));
        const hint = meant === undefined ? "" : `; did you mean ${meant}?`;
        return `${[...issue.path.map(String), key].join(".")}: unknown setting${hint}`;
      });
    })
    .join("; ");
}

/** The valid keys of the object at a path of the settings. */
function keysAt(path: readonly PropertyKey[]): readonly string[] {
  switch (path[0]) {
    case undefined:
      return Object.keys(settingsSchema.shape);
    case "transport":
      return Object.keys(transport.shape);
    case "rateLimit":
      return Object.keys(rateLimit.shape);
    case "entityOverrides":
      return Object.keys(entityOverride.shape);
    default:
      return [];
  }
}

function toRoute(fallback: string): (value: string) => string {
  return (value) => {
    const trimmed = value.trim().replace(/\/+$/u, "");
    if (trimmed === "") return fallback;
    return trimmed.startsWith("/") ? trimmed : `/${trimmed}`;
  };
}

function isOrigin(value: string): boolean {
  return URL.canParse(value) && new URL(value).origin === value;
}

function millisecondsOf(text: string): number {
  const unit = (["ms", "s", "m", "h"] as const).find((name) => text.endsWith(name)) ?? "ms";
  return Number(text.slice(0, -unit.length)) * units[unit];
}
