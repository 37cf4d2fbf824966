import { settingDefinitions, type SettingDefinition } from "../policy/sideband/settings.ts";
import { pluginIdentity, phasesOf, type PluginVariant } from "./identity.ts";

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
    match_all: [
      { pattern: "^[Hh][Tt][Tt][Pp][Ss]?://[^/?#]", err: "must be an http or https URL with a host" },
    ],
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
