import { existsSync, readFileSync } from "node:fs";

import { z } from "zod";
import { parse } from "yaml";

import { GatewayError } from "../../errors.ts";
import type { KitEnvironment } from "./contract.ts";
import { isIpNetwork } from "./peer.ts";
import { operationNames } from "./operations.ts";
import { isObject } from "./row.ts";

const units = { ms: 1, s: 1000, m: 60_000, h: 3_600_000 } as const;

/** Milliseconds, or a text such as `15s`, `30m`. */
const duration = z
  .union([z.number(), z.string().regex(/^-?\d+(?:\.\d+)?(?:ms|s|m|h)$/u, 'expected a duration such as "15s"')])
  .transform((value) => (typeof value === "number" ? value : millisecondsOf(value)));

const transportName = z.enum(["stdio", "http-sse", "streamable-http"]);

const origin = z.string().refine(isOrigin, {
  error: "expected an exact origin such as https://ide.example.com; `*` is refused because credentials are allowed",
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
  Omit<Parsed, "environment" | "enableStreamableHttp" | "enableRest" | "requireAuthentication" | "requireHttps">
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
  const deployed = parsed.environment === undefined ? environment.deployed : parsed.environment === "production";
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

/** Environment variables. */
export type EnvironmentVariables = Readonly<Record<string, string | undefined>>;

/** Reads a small file of the system; undefined where there is none. */
export type ReadSystemFile = (path: string) => string | undefined;

/**
 * Where the process runs (KO-136): `NODE_ENV` if it says so, else the marks of a container, which count as deployed.
 * The setting `environment` outranks both.
 */
export function detectEnvironment(
  variables: EnvironmentVariables,
  readMark: ReadSystemFile = readSystemFile,
): KitEnvironment {
  const { NODE_ENV: named } = variables;
  if (named === "production") return { deployed: true, name: "production" };
  if (named === "development" || named === "test") return { deployed: false, name: named };
  return isContainer(variables, readMark)
    ? { deployed: true, name: "container" }
    : { deployed: false, name: "development" };
}

function isContainer(variables: EnvironmentVariables, readMark: ReadSystemFile): boolean {
  if (variables["KUBERNETES_SERVICE_HOST"] !== undefined) return true;
  if (["/.dockerenv", "/run/.containerenv"].some((path) => readMark(path) !== undefined)) return true;
  return /docker|kubepods|containerd|libpod/u.test(readMark("/proc/1/cgroup") ?? "");
}

function readSystemFile(path: string): string | undefined {
  try {
    return existsSync(path) ? readFileSync(path, "utf8") : undefined;
  } catch {
    return undefined;
  }
}

/** Where settings come from, the later ones outranking the earlier (KO-047). */
export interface SettingSources {
  /** A JSON or YAML file. */
  readonly file?: string | undefined;
  /** `HEADGATE_KIT_ENABLE_CORS=true`, `HEADGATE_KIT_TRANSPORT__SHUTDOWN_TIMEOUT=5s`. */
  readonly variables?: EnvironmentVariables | undefined;
  readonly code?: KitSettingsInput | undefined;
}

const variablePrefix = "HEADGATE_KIT_";
/** Settings whose value is a list, so that a variable may give it with commas. */
const listSettings = new Set([
  "allowedOrigins",
  "allowedEntities",
  "deniedEntities",
  "trustedProxies",
  "stdioScopes",
  "operations",
]);

/** Joins file, environment and code, and checks the whole; a wrong key is an error that names the nearest valid one. */
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
    const reason = error instanceof Error ? error.message : String(error);
    throw new GatewayError("config_invalid", `server kit settings: ${file} cannot be read: ${reason}`, {
      cause: error,
    });
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

/** Objects are joined member by member; anything else is replaced. */
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

/** The valid name that was probably meant, if one is near enough to be a slip of the hand. */
function nearestName(name: string, candidates: readonly string[]): string | undefined {
  const wanted = name.toLowerCase();
  const ranked = candidates
    .map((candidate) => ({ candidate, distance: distanceBetween(wanted, candidate.toLowerCase()) }))
    .toSorted((one, other) => one.distance - other.distance);
  const [best] = ranked;
  // A third of the letters may be wrong.
  return best !== undefined && best.distance <= Math.max(1, wanted.length / 3) ? best.candidate : undefined;
}

/** How many letters must be put in, taken out or exchanged to make one text the other (Levenshtein). */
function distanceBetween(from: string, to: string): number {
  let row = Array.from({ length: to.length + 1 }, (_, column) => column);
  for (const [index, letter] of from.split("").entries()) {
    const next = [index + 1];
    for (const [column, other] of to.split("").entries()) {
      const exchanged = (row[column] ?? 0) + (letter === other ? 0 : 1);
      next.push(Math.min(exchanged, (row[column + 1] ?? 0) + 1, (next[column] ?? 0) + 1));
    }
    row = next;
  }
  return row[to.length] ?? 0;
}
