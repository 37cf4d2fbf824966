import { existsSync, readFileSync } from "node:fs";

import { parse } from "yaml";
import { z } from "zod";

import { GatewayError } from "../../errors.ts";
import { isNetwork } from "../../lib/addresses.ts";
import { closestName } from "../../lib/closest-name.ts";
import { anyDuration } from "../../lib/duration.ts";
import { isObject } from "../../lib/is-object.ts";
import { thrownMessage } from "../../lib/thrown-message.ts";
import { operationNames, transportNames } from "../entity/entity.ts";

/** Where the process runs; settings depend on it (KO-136). */
export interface KitEnvironment {
  /** Whether this is production or a container. */
  readonly deployed: boolean;
  /** For messages: `production`, `container`, `test` or `development`. */
  readonly name: string;
}

const MiB = 1_048_576;
const transportName = z.enum(transportNames);

const origin = z.string().refine(isOrigin, {
  error: "expected an exact origin such as https://ide.example.com; `*` is refused because credentials are allowed",
});

const network = z.string().refine(isNetwork, { error: "expected an IP address or a network such as 10.0.0.0/8" });

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
  maxQueuedBytes: z.int().positive().default(MiB),
  maxRequestBytes: z
    .int()
    .positive()
    .default(4 * MiB),
  maxBatchSize: z.int().positive().default(20),
  /** Events kept for resuming, per session and in all. */
  maxResumeBytes: z.int().nonnegative().default(MiB),
  maxResumeBytesTotal: z
    .int()
    .nonnegative()
    .default(64 * MiB),
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
  const parts: Readonly<Record<string, z.ZodObject>> = { transport, rateLimit, entityOverrides: entityOverride };
  const part = path.length === 0 ? settingsSchema : parts[String(path[0])];
  return Object.keys(part?.shape ?? {});
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

/** Environment variables. */
export type EnvironmentVariables = Readonly<Record<string, string | undefined>>;

/**
 * Detects where the process runs (KO-136): by `NODE_ENV`, else by the files and variables of a container, which counts
 * as deployed. The setting `environment` overrides both.
 *
 * @example
 * const issuer = createTestIssuer(detectEnvironment(process.env));
 */
export function detectEnvironment(
  variables: EnvironmentVariables,
  readFile: (path: string) => string | undefined = readSystemFile,
): KitEnvironment {
  const { NODE_ENV: named } = variables;
  if (named === "production") return { deployed: true, name: "production" };
  if (named === "development" || named === "test") return { deployed: false, name: named };
  return isContainer(variables, readFile)
    ? { deployed: true, name: "container" }
    : { deployed: false, name: "development" };
}

function isContainer(variables: EnvironmentVariables, readFile: (path: string) => string | undefined): boolean {
  if (variables["KUBERNETES_SERVICE_HOST"] !== undefined) return true;
  if (["/.dockerenv", "/run/.containerenv"].some((path) => readFile(path) !== undefined)) return true;
  return /docker|kubepods|containerd|libpod/u.test(readFile("/proc/1/cgroup") ?? "");
}

function readSystemFile(path: string): string | undefined {
  try {
    return existsSync(path) ? readFileSync(path, "utf8") : undefined;
  } catch {
    return undefined;
  }
}

/** Where settings come from; later sources override earlier ones (KO-047). */
interface SettingSources {
  /** A JSON or YAML file. */
  readonly file?: string | undefined;
  /** `HEADGATE_KIT_ENABLE_CORS=true`, `HEADGATE_KIT_TRANSPORT__SHUTDOWN_TIMEOUT=5s`. */
  readonly variables?: EnvironmentVariables | undefined;
  readonly code?: KitSettingsInput | undefined;
}

const variablePrefix = "HEADGATE_KIT_";
/** Settings whose variable may hold a comma-separated list. */
const listSettings = new Set([
  "allowedOrigins",
  "allowedEntities",
  "deniedEntities",
  "trustedProxies",
  "stdioScopes",
  "operations",
]);

/** Merges file, environment variables and code, and validates the result. */
export function loadSettings(sources: SettingSources, environment: KitEnvironment): KitSettings {
  const layers = [
    sources.file === undefined ? {} : readSettingsFile(sources.file),
    fromVariables(sources.variables ?? {}),
    sources.code ?? {},
  ];
  return parseSettings(
    layers.reduce<Readonly<Record<string, unknown>>>((low, high) => mergeSettings(low, high), {}),
    environment,
  );
}

function readSettingsFile(file: string): Readonly<Record<string, unknown>> {
  let content: unknown;
  try {
    content = parse(readFileSync(file, "utf8"));
  } catch (error) {
    const message = `server kit settings: ${file} cannot be read: ${thrownMessage(error)}`;
    throw new GatewayError("config_invalid", message, { cause: error });
  }
  if (isObject(content)) return content;
  throw new GatewayError("config_invalid", `server kit settings: ${file} must hold an object`);
}

function fromVariables(variables: EnvironmentVariables): Readonly<Record<string, unknown>> {
  let settings: Readonly<Record<string, unknown>> = {};
  for (const [name, value] of Object.entries(variables)) {
    if (!name.startsWith(variablePrefix) || value === undefined) continue;
    const path = name.slice(variablePrefix.length).split("__").map(camelCase);
    const last = path.at(-1) ?? "";
    const nested = path.reduceRight<unknown>((inner, key) => ({ [key]: inner }), parseVariable(last, value));
    settings = mergeSettings(settings, isObject(nested) ? nested : {});
  }
  return settings;
}

function parseVariable(key: string, value: string): unknown {
  try {
    return JSON.parse(value);
  } catch {
    return listSettings.has(key) ? value.split(",").map((part) => part.trim()) : value;
  }
}

function camelCase(name: string): string {
  return name.toLowerCase().replaceAll(/_([a-z\d])/gu, (_, letter: string) => letter.toUpperCase());
}

/** Merges objects member by member and replaces anything else. */
function mergeSettings(
  low: Readonly<Record<string, unknown>>,
  high: Readonly<Record<string, unknown>>,
): Readonly<Record<string, unknown>> {
  const joined: Record<string, unknown> = { ...low };
  for (const [key, value] of Object.entries(high)) {
    const below = joined[key];
    if (value !== undefined) joined[key] = isObject(below) && isObject(value) ? mergeSettings(below, value) : value;
  }
  return joined;
}
