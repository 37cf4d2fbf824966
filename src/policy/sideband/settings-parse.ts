import { GatewayError } from "../../errors.ts";
import { serviceUrlProblem } from "./service-url.ts";
import { settingDefinitions } from "./settings.ts";
import type { SettingDefinition, SidebandSettings } from "./settings.ts";

const headerToken = /^[!#$%&'*+.^_`|~\dA-Za-z-]+$/u;

/**
 * Checks settings and fills in the defaults; `null` counts as not given. Throws one `config_invalid` error that names
 * everything that is wrong, each with the setting it is about.
 */
export function parseSidebandSettings(given: unknown): SidebandSettings {
  if (!isRecord(given)) throw invalid(["the settings must be an object"]);
  const problems = Object.keys(given)
    .filter((name) => !Object.hasOwn(settingDefinitions, name))
    .map((name) => `${name}: there is no such setting`);
  const settings: Record<string, unknown> = {};
  for (const [name, definition] of Object.entries(settingDefinitions)) {
    const value = given[name] ?? ("default" in definition ? definition.default : undefined);
    const problem =
      value === undefined ? "is required" : (problemOf(definition, value) ?? problemOfNamed(name, value));
    if (problem !== undefined) problems.push(`${name}: ${problem}`);
    settings[name] = value;
  }
  if (problems.length > 0) throw invalid(problems);
  // Every member of SidebandSettings has a definition, and each value was checked against it just now.
  return settings as unknown as SidebandSettings;
}

function invalid(problems: readonly string[]): GatewayError {
  return new GatewayError("config_invalid", `bad PingAuthorize settings: ${problems.join("; ")}`, {
    details: { problems },
  });
}

function problemOf(definition: SettingDefinition, value: unknown): string | undefined {
  switch (definition.type) {
    case "string":
      return problemOfString(definition, value);
    case "integer":
      if (typeof value !== "number" || !Number.isSafeInteger(value)) return "must be an integer";
      return value < definition.min ? `must be at least ${definition.min}` : undefined;
    case "boolean":
      return typeof value === "boolean" ? undefined : "must be true or false";
    case "integers": {
      const [least, most] = definition.between;
      const fits = (entry: unknown): boolean =>
        typeof entry === "number" && Number.isInteger(entry) && entry >= least && entry <= most;
      return Array.isArray(value) && value.every(fits)
        ? undefined
        : `must be a list of integers from ${least} to ${most}`;
    }
    case "strings":
      return problemOfStrings(definition.oneOf, value);
  }
}

function problemOfString(
  { oneOf }: { readonly oneOf?: readonly string[] },
  value: unknown,
): string | undefined {
  if (typeof value !== "string" || value === "") return "must be a text that is not empty";
  return oneOf === undefined || oneOf.includes(value) ? undefined : `must be one of ${oneOf.join(", ")}`;
}

function problemOfStrings(oneOf: readonly string[] | undefined, value: unknown): string | undefined {
  if (!Array.isArray(value) || !value.every((entry) => typeof entry === "string" && entry !== "")) {
    return "must be a list of texts that are not empty";
  }
  const stranger = oneOf === undefined ? undefined : value.find((entry) => !oneOf.includes(String(entry)));
  return stranger === undefined
    ? undefined
    : `does not know ${JSON.stringify(stranger)}: known are ${oneOf?.join(", ")}`;
}

/** What the table cannot say. */
function problemOfNamed(name: string, value: unknown): string | undefined {
  if (name === "service_url") return serviceUrlProblem(String(value));
  if (name === "secret_header_name")
    return headerToken.test(String(value)) ? undefined : "is not the name of an HTTP header";
  return undefined;
}

function isRecord(value: unknown): value is Readonly<Record<string, unknown>> {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}
