import { GatewayError } from "../errors.ts";
import { parseSidebandSettings } from "../policy/sideband/settings-parse.ts";
import { settingDefinitions, type SidebandSettings } from "../policy/sideband/settings.ts";
import { isMap } from "./rpc.ts";

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
