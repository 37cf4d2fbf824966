import { readFileSync } from "node:fs";

import { parse } from "yaml";

import { GatewayError } from "../errors.ts";
import type { KitEnvironment } from "./contract.ts";
import type { EnvironmentVariables } from "./environment.ts";
import { isObject } from "./row.ts";
import { parseSettings } from "./settings.ts";
import type { KitSettings, KitSettingsInput } from "./settings.ts";

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
    if (value !== undefined)
      joined[key] = isObject(below) && isObject(value) ? mergeSettings(below, value) : value;
  }
  return joined;
}
