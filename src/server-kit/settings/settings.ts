import { z } from "zod";

import { GatewayError } from "../../errors.ts";
import { isNetwork } from "../../lib/addresses.ts";
import { anyDuration } from "../../lib/duration.ts";
import { closestName } from "../../lib/closest-name.ts";
import { operationNames, transportNames } from "../entity/entity.ts";

/** Where the process runs; settings depend on it (KO-136). */
export interface KitEnvironment {
  /** Whether this is production or a container. */
  readonly deployed: boolean;
  /** For messages: `production`, `container`, `test` or `development`. */
  readonly name: string;
}

const transportName = z.enum(transportNames);

const origin = z.string().refine(isOrigin, {
  error: "expected an exact origin such as https://ide.example.com; `*` is refused because credentials are allowed",
});

const network = z.string().refine(isNetwork, {
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
  heartbeatInterval: anyDuration.default(30_000),
  shutdownTimeout: anyDuration.default(10_000),
  loggerCategory: z.string().default("Koan.Transport.Mcp"),
  sseBufferSize: z.int().positive().default(8192),
  sseKeepAliveInterval: z
    .union([anyDuration, z.number().max(0)])
    .default(15_000)
    .transform((value) => (value <= 0 ? 15_000 : value)),
  maxQueuedBytes: z
    .int()
    .positive()
    .default(1024 * 1024),
  maxRequestBytes: z
    .int()
    .positive()
    .default(4 * 1024 * 1024),
  maxBatchSize: z.int().positive().default(20),
  /** Events kept for resuming, per session and in all. */
  maxResumeBytes: z
    .int()
    .nonnegative()
    .default(1024 * 1024),
  maxResumeBytesTotal: z
    .int()
    .nonnegative()
    .default(64 * 1024 * 1024),
});

const rateLimit = z.strictObject({
  callsPerMinute: z.int().positive().default(60),
  streamOpensPerMinute: z.int().positive().default(10),
});

const operation = z.enum(operationNames);

/** Every setting with its default (KO-029 to KO-046, KO-135, KO-136). `parseSettings` derives the optional ones. */
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
  sseConnectionTimeout: anyDuration.default(30 * 60_000),
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

/** Settings as code, file or environment variables give them. */
export type KitSettingsInput = z.input<typeof settingsSchema>;

/** The resolved settings; durations are milliseconds. */
export interface KitSettings extends Readonly<
  Omit<
    z.output<typeof settingsSchema>,
    "environment" | "enableStreamableHttp" | "enableRest" | "requireAuthentication" | "requireHttps"
  >
> {
  /** Production or a container (KO-136). */
  readonly deployed: boolean;
  /** For messages: `production`, `container`, `test` or `development`. */
  readonly environmentName: string;
  readonly enableStreamableHttp: boolean;
  /** Whether anything is served over HTTP. */
  readonly isHttpEnabled: boolean;
  readonly enableRest: boolean;
  readonly requireAuthentication: boolean;
  /** Whether `requireAuthentication` was set, rather than derived from the environment. */
  readonly isAuthenticationExplicit: boolean;
  readonly requireHttps: boolean;
  /** The scopes of the stdio caller. Default: all declared scopes (KO-138). */
  readonly stdioScopes?: string[] | undefined;
  /** Default: only where it is safe (KO-103). */
  readonly allowQueryToken?: boolean | undefined;
  /** The base URL by which clients know the kit. */
  readonly publicUrl?: string | undefined;
}

/** Validates settings and resolves defaults; throws `config_invalid` with the path of a wrong or unknown key. */
export function parseSettings(input: unknown, environment: KitEnvironment): KitSettings {
  const result = settingsSchema.safeParse(input);
  if (!result.success) {
    throw new GatewayError("config_invalid", `server kit settings: ${describeIssues(result.error.issues)}`);
  }
  const parsed = result.data;
  const deployed = parsed.environment === undefined ? environment.deployed : parsed.environment === "production";
  const enableStreamableHttp = parsed.enableStreamableHttp ?? parsed.enableHttpSseTransport;
  const isMcpEnabled = parsed.enableHttpSseTransport || enableStreamableHttp;
  const enableRest = parsed.enableRest ?? isMcpEnabled;
  return {
    ...parsed,
    deployed,
    environmentName: parsed.environment ?? environment.name,
    enableStreamableHttp,
    enableRest,
    isHttpEnabled: isMcpEnabled || enableRest,
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
        const meant = closestName(key, keysAt(issue.path));
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
