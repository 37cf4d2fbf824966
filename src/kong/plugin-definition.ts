import { GatewayError } from "../errors.ts";
import { withoutUndefined } from "../lib/without-undefined.ts";
import { parseServiceUrl } from "../policy/pdp/client.ts";
import { kongPlugin } from "../policy/sideband/engine.ts";
import {
  parseSidebandSettings,
  reservedHeaders,
  type SettingDefinition,
  settingDefinitions,
  type SidebandSettings,
} from "../policy/sideband/settings.ts";
import type { EnginePool } from "./engine-pool.ts";
import { isMap } from "./frames.ts";
import type { PhaseName } from "./phase-event.ts";
import { createAccessHandler, createResponseHandler, type KongPhaseDeps, type KongPhaseLog } from "./phases.ts";
import { type InstanceRequest, type PluginInstance, type ServerLog, timeLimits } from "./plugin-server.ts";

/**
 * What `--query` prints: the plugin and its settings as Kong's schema, so that Kong itself rejects invalid values
 * (PA-201). Kong reads the first entry only.
 */
export function pluginDump(variant: PluginVariant): readonly unknown[] {
  return [
    {
      Name: pluginIdentity.name,
      Version: pluginIdentity.version,
      Priority: pluginIdentity.priority,
      Phases: phasesOf(variant),
      Schema: {
        name: pluginIdentity.name,
        fields: [
          {
            config: {
              type: "record",
              required: true,
              fields: Object.entries(settingDefinitions).map(([name, definition]) => ({
                [name]: kongField(name, definition),
              })),
            },
          },
        ],
      },
    },
  ];
}

/**
 * A setting as a field of Kong's schema. It cannot express every rule, so `parseInstanceConfig` checks again. It has no
 * `description`, which Kong does not know before 3.4 and then refuses to start.
 */
function kongField(name: string, definition: SettingDefinition): Readonly<Record<string, unknown>> {
  switch (definition.type) {
    case "string":
      return withoutUndefined({
        type: "string",
        len_min: 1,
        required: definition.default === undefined ? definition.required : true,
        default: definition.default,
        one_of: definition.oneOf,
        referenceable: definition.referenceable,
        encrypted: definition.encrypted,
        ...patterns[name],
      });
    case "integer":
      return {
        type: "integer",
        required: true,
        default: definition.default,
        ...(definition.min === 1 ? { gt: 0 } : { between: [definition.min, maxInteger] }),
      };
    case "boolean":
      return { type: "boolean", required: true, default: definition.default };
    case "integers":
      return {
        type: "array",
        required: true,
        default: definition.default,
        elements: { type: "integer", between: definition.between },
      };
    case "strings":
      return {
        type: "array",
        required: true,
        default: definition.default,
        elements: withoutUndefined({ type: "string", len_min: 1, one_of: definition.oneOf }),
      };
  }
}

/** The largest integer that a Lua number holds exactly. */
const maxInteger = 2 ** 53 - 1;

/** Lua patterns for single settings, which say what `parseSidebandSettings` says. */
const patterns: Readonly<Record<string, Readonly<Record<string, unknown>>>> = {
  service_url: serviceUrlRules(),
  shared_secret: {
    match_none: ["%c", "^ ", " $"].map((pattern) => ({
      pattern,
      err: "must have no control characters, such as a line break at its end, and no spaces around it",
    })),
  },
  secret_header_name: {
    match_all: [{ pattern: "^[%w!#$%%&'*+%-.^_`|~]+$", err: "must be the name of an HTTP header" }],
    match_none: reservedHeaders.map((name) => ({
      pattern: `^${anyCase(name)}$`,
      err: "must not be a header that has another meaning",
    })),
  },
};

/** A Lua pattern for a header name, whose letter case does not count. */
function anyCase(name: string): string {
  return name.replaceAll(/[a-z]/gu, (letter) => `[${letter.toUpperCase()}${letter}]`).replaceAll("-", "%-");
}

/**
 * What `serviceUrlProblem` says, in Lua patterns. These have no alternatives and no ranges of numbers, so every
 * combination of user, host and port is a pattern of its own, and so is every range of ports that do not exist.
 */
function serviceUrlRules(): Readonly<Record<string, unknown>> {
  const scheme = "^[Hh][Tt][Tt][Pp][Ss]?://";
  const hosts = ["", "[^/@]*@"].flatMap((user) => ["%w[%w%-%._]*", "%[[%x:%.]+%]"].map((host) => `${user}${host}`));
  const authorities = hosts.flatMap((host) => [host, `${host}:%d+`]);
  const ports = ["%d%d%d%d%d%d+", "[7-9]%d%d%d%d", "6[6-9]%d%d%d", "65[6-9]%d%d", "655[4-9]%d", "6553[6-9]"];
  return {
    match_any: {
      patterns: authorities.flatMap((authority) => [`${scheme}${authority}$`, `${scheme}${authority}/`]),
      err: "must be an http or https URL with a host",
    },
    match_all: [
      {
        pattern: "^[%w%-%._~%%!$&'()*+,;=:@%[%]/]*$",
        err: "must have neither a query nor a fragment, and no characters that a URL does not have",
      },
    ],
    match_none: [
      ...["", "/[Rr][Ee][Qq][Uu][Ee][Ss][Tt]", "/[Rr][Ee][Ss][Pp][Oo][Nn][Ss][Ee]"].map((end) => ({
        pattern: `/[Ss][Ii][Dd][Ee][Bb][Aa][Nn][Dd]${end}/*$`,
        err: "must not end in /sideband, /sideband/request or /sideband/response: the plugin appends these itself",
      })),
      ...ports.flatMap((port) =>
        ["$", "/"].map((end) => ({ pattern: `${scheme}[^/]*:${port}${end}`, err: "must have a port up to 65535" })),
      ),
    ],
  };
}

/** The plugin as Kong knows it (PA-001, PA-002, PA-003). */
export const pluginIdentity = { name: kongPlugin.name, version: kongPlugin.version, priority: 999 } as const;

/** Without the response phase Kong does not buffer responses, so that streams flow (PX-08). */
export interface PluginVariant {
  readonly accessOnly: boolean;
}

/** The phases of a variant. */
export function phasesOf({ accessOnly }: PluginVariant): readonly PhaseName[] {
  return accessOnly ? ["access"] : ["access", "response"];
}

/** The configuration of one plugin instance. */
export interface InstanceConfig {
  readonly settings: SidebandSettings;
  /** Kong's id of the configured plugin, equal in all workers and for all revisions of the configuration. */
  readonly pluginId: string;
  /** The vault reference that `shared_secret` came from. */
  readonly secretReference: string | undefined;
}

/** Reads the JSON text of StartInstance; throws `config_invalid` with all problems. */
export function parseInstanceConfig(text: string): InstanceConfig {
  const config = parseObject(text);
  const settings: Record<string, unknown> = {};
  // Kong adds members of its own, and its schema has rejected unknown settings.
  for (const [name, { type }] of Object.entries(settingDefinitions)) {
    const value = config[name];
    if (value === undefined) continue;
    // Lua does not distinguish an empty list from an empty map; cjson writes the latter.
    const isList = type === "integers" || type === "strings";
    settings[name] = isList && isMap(value) && Object.keys(value).length === 0 ? [] : value;
  }
  return {
    settings: parseSidebandSettings(settings),
    pluginId: idOf(config, text),
    secretReference: referenceOf(config),
  };
}

function parseObject(text: string): Readonly<Record<string, unknown>> {
  try {
    const parsed: unknown = JSON.parse(text);
    if (isMap(parsed)) return parsed;
  } catch {
    // Reported below.
  }
  throw new GatewayError("config_invalid", "the plugin's configuration is not a JSON object");
}

/** Older versions of Kong only send a key; without either, equal configurations count as one plugin. */
function idOf(config: Readonly<Record<string, unknown>>, text: string): string {
  for (const name of ["__plugin_id", "__key__"]) {
    const value = config[name];
    if (typeof value === "string" && value !== "") return value;
  }
  return text;
}

/** Kong sends vault references beside the values it resolved. */
function referenceOf(config: Readonly<Record<string, unknown>>): string | undefined {
  const references = config["$refs"];
  const reference = isMap(references) ? references["shared_secret"] : undefined;
  return typeof reference === "string" && reference !== "" ? reference : undefined;
}

export interface PluginDeps extends PluginVariant {
  readonly engines: EnginePool;
  readonly phaseLog: KongPhaseLog;
  readonly log: ServerLog;
}

/** Makes plugin instances; throws `config_invalid` for an invalid configuration. */
export function createInstanceFactory(options: PluginDeps): (request: InstanceRequest) => PluginInstance {
  const { accessOnly, engines, phaseLog, log } = options;
  return ({ config: text }) => {
    const config = parseInstanceConfig(text);
    const { settings, pluginId } = config;
    const service_url = parseServiceUrl(settings.service_url).shown;
    const about = { service_url, plugin_id: pluginId };
    warnAboutDeadline(settings, (message, fields) => log.warn(message, { ...about, ...fields }));
    if (accessOnly && !settings.skip_response_phase) {
      // A response policy must not be skipped silently (PX-08).
      log.warn("started with --access-only: responses are not checked although skip_response_phase is false", about);
    }
    const lease = engines.lease(
      accessOnly ? { ...config, settings: { ...settings, skip_response_phase: true } } : config,
    );
    const tools: KongPhaseDeps = {
      engine: lease.engine,
      secret: lease.secret,
      phaseLog,
      budgetMs: timeLimits.budgetMs,
      maxBodyBytes: settings.max_body_bytes,
      logHead: { plugin: pluginIdentity.name, service_url },
      hasResponseHandler: !accessOnly,
      withMcp: settings.enable_mcp,
      withTrace: settings.enable_otel,
    };
    const phases = new Map([
      ["access", createAccessHandler(tools)],
      ...(accessOnly ? [] : [["response", createResponseHandler(tools)] as const]),
    ]);
    return { phase: (name) => phases.get(name), close: () => lease.release() };
  };
}

/** Retries may take longer than Kong waits; the deadline still holds (PX-02). */
function warnAboutDeadline(
  settings: { readonly max_retries: number; readonly connection_timeout_ms: number; readonly retry_backoff_ms: number },
  warn: ServerLog["warn"],
): void {
  const { max_retries: retries, connection_timeout_ms: timeout, retry_backoff_ms: backoff } = settings;
  const worstMs = (retries + 1) * timeout + retries * backoff;
  if (worstMs > timeLimits.budgetMs) {
    warn("all attempts together may take longer than Kong waits; Kong then cancels them", {
      worst_case_ms: worstMs,
      cut_off_ms: timeLimits.budgetMs,
    });
  }
}
