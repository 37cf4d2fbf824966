import { type RecognizedMethod, recognizedMethods } from "../../protocol/http/mcp-context.ts";
import { GatewayError } from "../../errors.ts";
import { serviceUrlProblem } from "../pdp/service-url.ts";

/** The settings of the Sideband engine, under the names that the Kong plugin's configuration gives them. */
export interface SidebandSettings {
  /** Base URL of PingAuthorize, without `/sideband/…`. */
  readonly service_url: string;
  /** The secret that PingAuthorize knows this caller by. */
  readonly shared_secret: string;
  /** The header that carries the secret. */
  readonly secret_header_name: string;
  /** One limit for connecting, writing and reading of each attempt. */
  readonly connection_timeout_ms: number;
  /** How long an idle connection is kept. */
  readonly connection_keepalive_ms: number;
  /** Whether the certificate of PingAuthorize must be trusted; off for test environments only. */
  readonly verify_service_cert: boolean;
  /** Lets responses go to the client without a question. */
  readonly skip_response_phase: boolean;
  /** Lets requests through when PingAuthorize cannot be asked. */
  readonly fail_open: boolean;
  /** Statuses of PingAuthorize that the client gets as they are. */
  readonly passthrough_status_codes: readonly number[];
  /** Further attempts after a failed one. */
  readonly max_retries: number;
  /** The pause between two attempts. */
  readonly retry_backoff_ms: number;
  /** Stops asking for a while after a failure. */
  readonly circuit_breaker_enabled: boolean;
  /** Takes `Accept-Encoding` off the upstream request. */
  readonly strip_accept_encoding: boolean;
  /** Sends all certificates of the client's chain and not only its own. */
  readonly include_full_cert_chain: boolean;
  /** Logs payloads and answers. */
  readonly enable_debug_logging: boolean;
  /** Makes spans and metrics. */
  readonly enable_otel: boolean;
  /** Headers whose values are never logged. */
  readonly redact_headers: readonly string[];
  /** Longest body in a log entry; 0 for no limit. */
  readonly debug_body_max_bytes: number;
  /** The master switch of everything about MCP. */
  readonly enable_mcp: boolean;
  /** Answers MCP requests with JSON-RPC errors. */
  readonly mcp_jsonrpc_errors: boolean;
  /** Longest payload; 0 for no limit. */
  readonly max_sideband_body_bytes: number;
  /** What happens to a payload over the limit. */
  readonly max_sideband_body_action: "truncate" | "reject";
  /** Request headers that are repeated in `extracted_headers`. */
  readonly extract_headers: readonly string[];
  /** MCP methods whose questions may be retried. */
  readonly mcp_retry_methods: readonly RecognizedMethod[];
}

/** What a value of one setting may be. `description` is for people, the rest for programs. */
export type SettingDefinition = { readonly description: string } & (
  | {
      readonly type: "string";
      readonly required?: true;
      readonly default?: string;
      readonly oneOf?: readonly string[];
      /** May be a reference to a secret in a vault. */
      readonly referenceable?: true;
    }
  | { readonly type: "integer"; readonly default: number; readonly min: number }
  | { readonly type: "boolean"; readonly default: boolean }
  | {
      readonly type: "integers";
      readonly default: readonly number[];
      readonly between: readonly [number, number];
    }
  | { readonly type: "strings"; readonly default: readonly string[]; readonly oneOf?: readonly string[] }
);

/** Every setting, in the order of the documents. Schemas for Kong, checks and tables are made from this. */
export const settingDefinitions: { readonly [Name in keyof SidebandSettings]: SettingDefinition } = {
  service_url: {
    type: "string",
    required: true,
    description: "Base URL of PingAuthorize, http or https, without `/sideband/…`.",
  },
  shared_secret: {
    type: "string",
    required: true,
    referenceable: true,
    description: "The secret that PingAuthorize knows this caller by.",
  },
  secret_header_name: {
    type: "string",
    required: true,
    description: "The header that carries the secret, such as `CLIENT-TOKEN`.",
  },
  connection_timeout_ms: {
    type: "integer",
    default: 10_000,
    min: 1,
    description: "One limit for connecting, writing and reading of each attempt.",
  },
  connection_keepalive_ms: {
    type: "integer",
    default: 60_000,
    min: 1,
    description: "How long an idle connection is kept.",
  },
  verify_service_cert: {
    type: "boolean",
    default: true,
    description: "Refuses a certificate of PingAuthorize that is not trusted. Off for test environments only.",
  },
  skip_response_phase: {
    type: "boolean",
    default: false,
    description: "Lets responses go to the client without a question.",
  },
  fail_open: {
    type: "boolean",
    default: false,
    description: "Lets requests through when PingAuthorize cannot be asked.",
  },
  passthrough_status_codes: {
    type: "integers",
    default: [413],
    between: [400, 599],
    description: "Statuses of PingAuthorize that the client gets as they are.",
  },
  max_retries: {
    type: "integer",
    default: 0,
    min: 0,
    description: "Further attempts after a failed one.",
  },
  retry_backoff_ms: {
    type: "integer",
    default: 500,
    min: 1,
    description: "The pause between two attempts.",
  },
  circuit_breaker_enabled: {
    type: "boolean",
    default: true,
    description: "Stops asking for a while after a failure.",
  },
  strip_accept_encoding: {
    type: "boolean",
    default: true,
    description: "Takes `Accept-Encoding` off the upstream request.",
  },
  include_full_cert_chain: {
    type: "boolean",
    default: false,
    description: "Sends all certificates of the client's chain and not only its own.",
  },
  enable_debug_logging: {
    type: "boolean",
    default: false,
    description: "Logs payloads and answers.",
  },
  enable_otel: {
    type: "boolean",
    default: false,
    description: "Makes spans and metrics.",
  },
  redact_headers: {
    type: "strings",
    default: ["authorization", "cookie"],
    description: "Headers whose values are never logged.",
  },
  debug_body_max_bytes: {
    type: "integer",
    default: 8192,
    min: 0,
    description: "Longest body in a log entry; 0 for no limit.",
  },
  enable_mcp: {
    type: "boolean",
    default: false,
    description: "The master switch of everything about MCP.",
  },
  mcp_jsonrpc_errors: {
    type: "boolean",
    default: false,
    description: "Answers MCP requests with JSON-RPC errors.",
  },
  max_sideband_body_bytes: {
    type: "integer",
    default: 0,
    min: 0,
    description: "Longest payload in bytes; 0 for no limit.",
  },
  max_sideband_body_action: {
    type: "string",
    default: "truncate",
    oneOf: ["truncate", "reject"],
    description: "What happens to a payload over the limit: its body is shortened, or it is refused.",
  },
  extract_headers: {
    type: "strings",
    default: [],
    description: "Request headers that are repeated in `extracted_headers`.",
  },
  mcp_retry_methods: {
    type: "strings",
    default: ["tools/list", "resources/list", "prompts/list", "initialize"],
    oneOf: recognizedMethods,
    description: "MCP methods whose questions may be retried.",
  },
};

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
    const problem = value === undefined ? "is required" : (problemOf(definition, value) ?? problemOfNamed(name, value));
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

function problemOfString({ oneOf }: { readonly oneOf?: readonly string[] }, value: unknown): string | undefined {
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
