import {
  parseSidebandSettings,
  type SettingDefinition,
  settingDefinitions,
  type SidebandSettings,
} from "../policy/sideband/settings.ts";
import { kongPlugin } from "../policy/sideband/engine.ts";
import type { PhaseName } from "./phase-event.ts";
import { GatewayError } from "../errors.ts";
import { isMap } from "./rpc.ts";

/**
 * What `--query` prints: one JSON document that tells Kong of the plugin and of its settings, in the words of Kong's
 * schemas, so that Kong itself refuses a bad value (PA-201). Kong reads the first entry only.
 */
export function pluginDump(offer: PluginVariant): readonly unknown[] {
  return [
    {
      Name: pluginIdentity.name,
      Version: pluginIdentity.version,
      Priority: pluginIdentity.priority,
      Phases: phasesOf(offer),
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

/** One setting in the words of Kong's schemas; functions cannot be told this way, so all is checked again here. */
function kongField(name: string, definition: SettingDefinition): Readonly<Record<string, unknown>> {
  const { description } = definition;
  switch (definition.type) {
    case "string":
      return {
        type: "string",
        description,
        len_min: 1,
        ...(definition.required === undefined ? {} : { required: true }),
        ...(definition.default === undefined ? {} : { required: true, default: definition.default }),
        ...(definition.oneOf === undefined ? {} : { one_of: definition.oneOf }),
        ...(definition.referenceable === undefined ? {} : { referenceable: true }),
        ...patterns[name],
      };
    case "integer":
      return {
        type: "integer",
        description,
        required: true,
        default: definition.default,
        ...(definition.min === 1 ? { gt: 0 } : { between: [definition.min, maxInteger] }),
      };
    case "boolean":
      return { type: "boolean", description, required: true, default: definition.default };
    case "integers":
      return {
        type: "array",
        description,
        required: true,
        default: definition.default,
        elements: { type: "integer", between: definition.between },
      };
    case "strings":
      return {
        type: "array",
        description,
        required: true,
        default: definition.default,
        elements: {
          type: "string",
          len_min: 1,
          ...(definition.oneOf === undefined ? {} : { one_of: definition.oneOf }),
        },
      };
  }
}

/** Whole numbers that Lua's doubles hold exactly. */
const maxInteger = 2 ** 53 - 1;

/** What Lua patterns can say about single settings; `-` and `.` need their percent signs. */
const patterns: Readonly<Record<string, Readonly<Record<string, unknown>>>> = {
  service_url: {
    match_all: [{ pattern: "^[Hh][Tt][Tt][Pp][Ss]?://[^/?#]", err: "must be an http or https URL with a host" }],
    match_none: [
      {
        pattern: "/sideband/?$",
        err: "must not end in /sideband: the plugin appends /sideband/request and /sideband/response itself",
      },
      {
        pattern: "/sideband/request/?$",
        err: "must not end in /sideband/request: the plugin appends it itself",
      },
      {
        pattern: "/sideband/response/?$",
        err: "must not end in /sideband/response: the plugin appends it itself",
      },
    ],
  },
  secret_header_name: {
    match: "^[%w!#$%%&'*+%-.^_`|~]+$",
  },
};

/** Under which name, version and priority Kong knows the plugin (PA-001, PA-002, PA-003). */
export const pluginIdentity = {
  name: kongPlugin.name,
  version: kongPlugin.version,
  priority: 999,
} as const;

/** What the server offers: without the response phase Kong does not buffer, so that streams flow (PX-08). */
export interface PluginVariant {
  readonly accessOnly: boolean;
}

/** The phases that Kong calls. */
export function phasesOf({ accessOnly }: PluginVariant): readonly PhaseName[] {
  return accessOnly ? ["access"] : ["access", "response"];
}

/** The configuration of one plugin, as Kong hands it over with its own notes. */
export interface InstanceConfig {
  readonly settings: SidebandSettings;
  /** Kong's id of the configured plugin, the same in all workers and for all revisions of its configuration. */
  readonly pluginId: string;
  /** Where `shared_secret` comes from, if it is a reference to a vault. */
  readonly secretReference: string | undefined;
}

/** Reads the JSON text of StartInstance; throws `config_invalid` with everything that is wrong with it. */
export function parseInstanceConfig(text: string): InstanceConfig {
  const config = parseObject(text);
  const settings: Record<string, unknown> = {};
  // Kong adds ids and notes of its own, more with every version; its schema has refused unknown settings already.
  for (const [name, { type }] of Object.entries(settingDefinitions)) {
    const value = config[name];
    if (value === undefined) continue;
    // Lua does not tell an empty list from an empty map, and cjson writes the latter.
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
    // Said below.
  }
  throw new GatewayError("config_invalid", "the plugin's configuration is not a JSON object");
}

/** Older versions of Kong only give a key; without either, equal configurations are taken for one plugin. */
function idOf(config: Readonly<Record<string, unknown>>, text: string): string {
  for (const name of ["__plugin_id", "__key__"]) {
    const value = config[name];
    if (typeof value === "string" && value !== "") return value;
  }
  return text;
}

/** Kong keeps the references beside the values that it found for them. */
function referenceOf(config: Readonly<Record<string, unknown>>): string | undefined {
  const references = config["$refs"];
  const reference = isMap(references) ? references["shared_secret"] : undefined;
  return typeof reference === "string" && reference !== "" ? reference : undefined;
}
