import { existsSync, readFileSync } from "node:fs";

import { parse } from "yaml";

import { GatewayError } from "../../errors.ts";
import { isObject } from "../../lib/is-object.ts";
import { type KitEnvironment, type KitSettings, type KitSettingsInput, parseSettings } from "./settings.ts";

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
export interface SettingSources {
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
