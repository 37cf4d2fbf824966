import { createPrivateKey, X509Certificate } from "node:crypto";

import { GatewayError } from "../../errors.ts";
import { isObject } from "../../lib/is-object.ts";
import { recognizedMethods } from "../../protocol/http/mcp-context.ts";

/** The type, default and description of one setting. */
export type SettingDefinition = { readonly description: string } & (
  | {
      readonly type: "string";
      readonly required?: true;
      /** May be left out; then the setting is undefined. */
      readonly optional?: true;
      readonly default?: string;
      readonly oneOf?: readonly string[];
      /** May be a vault reference. */
      readonly referenceable?: true;
      /** Kong keeps it encrypted where it can. */
      readonly encrypted?: true;
    }
  | { readonly type: "integer"; readonly default: number; readonly min: number }
  | { readonly type: "boolean"; readonly default: boolean }
  | { readonly type: "integers"; readonly default: readonly number[]; readonly between: readonly [number, number] }
  | { readonly type: "strings"; readonly default: readonly string[]; readonly oneOf?: readonly string[] }
);

const flag = (fallback: boolean, description: string) => ({ type: "boolean", default: fallback, description }) as const;
const integer = (fallback: number, min: number, description: string) =>
  ({ type: "integer", default: fallback, min, description }) as const;
const headerNames = (fallback: readonly string[], description: string) =>
  ({ type: "strings", default: fallback, description }) as const;

const pem = (description: string) => ({ type: "string", optional: true, referenceable: true, description }) as const;

/** Every setting of the engine, under the names of the Kong plugin. Kong's schema is generated from this table. */
export const settingDefinitions = {
  service_url: {
    type: "string",
    required: true,
    description: "Base URL of PingAuthorize, http or https, without `/sideband/…`.",
  },
  shared_secret: {
    type: "string",
    required: true,
    referenceable: true,
    description: "Secret that authenticates the gateway to PingAuthorize.",
  },
  secret_header_name: {
    type: "string",
    required: true,
    description: "Header that carries the secret, such as `CLIENT-TOKEN`.",
  },
  connection_timeout_ms: integer(10_000, 1, "Time limit for one attempt: connecting, writing and reading."),
  connection_keepalive_ms: integer(60_000, 1, "How long idle connections are kept open."),
  verify_service_cert: flag(true, "Verify the certificate of PingAuthorize; disable in test environments only."),
  tls_ca_cert: pem("Certificate authorities (PEM) to trust for `service_url`, instead of those of Node."),
  tls_client_cert: pem("Client certificate (PEM) for `service_url`, with its chain."),
  tls_client_key: { ...pem("Key (PEM) of the client certificate."), encrypted: true },
  skip_response_phase: flag(false, "Pass responses to the client without evaluation."),
  fail_open: flag(false, "Let messages pass when PingAuthorize is unavailable."),
  passthrough_status_codes: {
    type: "integers",
    default: [413],
    between: [400, 599],
    description: "Statuses of PingAuthorize that are passed on to the client.",
  },
  max_retries: integer(0, 0, "Retries after a failed attempt."),
  retry_backoff_ms: integer(500, 1, "Pause before each retry."),
  circuit_breaker_enabled: flag(true, "Stop calling PingAuthorize for a while after a failure."),
  strip_accept_encoding: flag(true, "Remove `Accept-Encoding` from the upstream request."),
  include_full_cert_chain: flag(false, "Send the client's whole certificate chain, not only its own certificate."),
  enable_debug_logging: flag(false, "Log payloads and answers."),
  enable_otel: flag(false, "Create spans and metrics."),
  redact_headers: headerNames(["authorization", "cookie"], "Headers whose values are never logged."),
  debug_body_max_bytes: integer(8192, 0, "Longest body in a log entry; 0 for no limit."),
  enable_mcp: flag(false, "Enable everything about MCP."),
  non_mcp_json: {
    type: "string",
    default: "refuse",
    oneOf: ["refuse", "allow"],
    description:
      "With `enable_mcp`: refuse bodies that are not MCP by the letter but that a lenient server could read as MCP, or allow them as ordinary traffic.",
  },
  mcp_jsonrpc_errors: flag(false, "Answer MCP requests with JSON-RPC errors."),
  max_body_bytes: integer(
    10 * 1024 * 1024,
    0,
    "Longest body that is evaluated; longer requests are refused with 413, longer responses with 502; 0 for no limit.",
  ),
  max_sideband_body_bytes: integer(0, 0, "Longest payload in bytes; 0 for no limit."),
  max_sideband_body_action: {
    type: "string",
    default: "truncate",
    oneOf: ["truncate", "reject"],
    description: "For a payload over the limit: truncate its body, or reject the request.",
  },
  extract_headers: headerNames([], "Request headers to repeat in `extracted_headers`."),
  mcp_retry_methods: {
    type: "strings",
    default: ["tools/list", "resources/list", "prompts/list", "initialize"],
    oneOf: recognizedMethods,
    description: "MCP methods whose evaluation may be retried.",
  },
} as const satisfies Readonly<Record<string, SettingDefinition>>;

type SettingValue<Definition> = Definition extends { type: "string"; oneOf: readonly (infer Choice)[] }
  ? Choice
  : Definition extends { optional: true }
    ? string | undefined
    : Definition extends { type: "strings"; oneOf: readonly (infer Choice)[] }
      ? readonly Choice[]
      : {
          string: string;
          integer: number;
          boolean: boolean;
          integers: readonly number[];
          strings: readonly string[];
        }[Definition extends SettingDefinition ? Definition["type"] : never];

/** The settings of the engine. */
export type SidebandSettings = {
  readonly [Name in keyof typeof settingDefinitions]: SettingValue<(typeof settingDefinitions)[Name]>;
};

/** Checks settings and applies the defaults; `null` counts as missing. Throws one `config_invalid` with all problems. */
export function parseSidebandSettings(given: unknown): SidebandSettings {
  if (!isObject(given)) throw invalid(["the settings must be an object"]);
  const problems = Object.keys(given)
    .filter((name) => !Object.hasOwn(settingDefinitions, name))
    .map((name) => `${name}: unknown setting`);
  const settings: Record<string, unknown> = {};
  for (const [name, definition] of Object.entries<SettingDefinition>(settingDefinitions)) {
    const value = given[name] ?? definition.default;
    const isMissing = value === undefined && !("optional" in definition);
    const found = value === undefined ? undefined : (valueProblem(definition, value) ?? formProblem(name, value));
    const problem = isMissing ? "is required" : found;
    if (problem !== undefined) problems.push(`${name}: ${problem}`);
    settings[name] = value;
  }
  if ((settings["tls_client_cert"] === undefined) !== (settings["tls_client_key"] === undefined))
    problems.push("tls_client_cert: goes together with tls_client_key");
  else if (problems.length === 0 && !isPair(settings["tls_client_cert"], settings["tls_client_key"]))
    problems.push("tls_client_key: is not the key of tls_client_cert");
  if (problems.length > 0) throw invalid(problems);
  // Each value was checked against its definition.
  return settings as unknown as SidebandSettings;
}

function invalid(problems: readonly string[]): GatewayError {
  const text = `invalid PingAuthorize settings: ${problems.join("; ")}`;
  return new GatewayError("config_invalid", text, { details: { problems } });
}

function valueProblem(definition: SettingDefinition, value: unknown): string | undefined {
  switch (definition.type) {
    case "string": {
      const { oneOf } = definition;
      if (typeof value !== "string" || value === "") return "must be a non-empty string";
      return oneOf === undefined || oneOf.includes(value) ? undefined : `must be one of ${oneOf.join(", ")}`;
    }
    case "integer":
      if (typeof value !== "number" || !Number.isSafeInteger(value)) return "must be an integer";
      return value < definition.min ? `must be at least ${definition.min}` : undefined;
    case "boolean":
      return typeof value === "boolean" ? undefined : "must be true or false";
    case "integers": {
      const [min, max] = definition.between;
      const fits = (entry: unknown): boolean =>
        typeof entry === "number" && Number.isInteger(entry) && entry >= min && entry <= max;
      return Array.isArray(value) && value.every(fits) ? undefined : `must be integers from ${min} to ${max}`;
    }
    case "strings": {
      const { oneOf } = definition;
      if (!Array.isArray(value) || !value.every((entry) => typeof entry === "string" && entry !== ""))
        return "must be non-empty strings";
      const unknown: unknown = value.find((entry) => oneOf?.includes(String(entry)) === false);
      return unknown === undefined
        ? undefined
        : `has the unknown value ${JSON.stringify(unknown)}; known are ${oneOf?.join(", ")}`;
    }
  }
}

const headerToken = /^[!#$%&'*+.^_`|~\dA-Za-z-]+$/u;

/** Headers of the request to PingAuthorize that mean something else already. */
export const reservedHeaders: readonly string[] = [
  "connection",
  "content-encoding",
  "content-length",
  "content-type",
  "expect",
  "host",
  "keep-alive",
  "te",
  "trailer",
  "transfer-encoding",
  "traceparent",
  "tracestate",
  "upgrade",
  "user-agent",
];

/** What the table cannot express. */
function formProblem(name: string, value: unknown): string | undefined {
  const text = String(value);
  switch (name) {
    case "service_url":
      return serviceUrlProblem(text);
    case "shared_secret":
      return secretProblem(text);
    case "secret_header_name":
      if (!headerToken.test(text)) return "is not the name of an HTTP header";
      return reservedHeaders.includes(text.toLowerCase()) ? "is a header that has another meaning" : undefined;
    case "tls_ca_cert":
    case "tls_client_cert":
      return readsAs(() => certificatesIn(text)) ? undefined : "is not a certificate in PEM";
    case "tls_client_key":
      return readsAs(() => createPrivateKey(text)) ? undefined : "is not a private key in PEM without a passphrase";
    default:
      return undefined;
  }
}

/** What is wrong with a secret: no attempt could carry it, and with `fail_open` everything would pass. */
export function secretProblem(secret: string): string | undefined {
  return /^[ -~\u0080-\u00FF]+$/u.test(secret) && secret.trim() === secret
    ? undefined
    : "has characters that an HTTP header cannot carry, or white space around it, such as a line break at its end";
}

function certificatesIn(text: string): readonly X509Certificate[] {
  const blocks = text.match(/-----BEGIN CERTIFICATE-----[\s\S]*?-----END CERTIFICATE-----/gu);
  if (blocks === null) throw new TypeError("no certificate");
  return blocks.map((block) => new X509Certificate(block));
}

function isPair(certificate: unknown, key: unknown): boolean {
  if (typeof certificate !== "string" || typeof key !== "string") return true;
  return certificatesIn(certificate)[0]?.checkPrivateKey(createPrivateKey(key)) === true;
}

function readsAs(read: () => unknown): boolean {
  try {
    read();
    return true;
  } catch {
    return false;
  }
}

const endpointPath = /\/sideband(?:\/request|\/response)?\/*$/iu;
/** The characters of a URL without query and fragment (RFC 3986, section 2), user and host in their simplest form. */
const serviceUrlForm = /^https?:\/\/(?:[^/@]*@)?(?:[a-z\d][a-z\d._-]*|\[[\da-f:.]+\])(?::\d+)?(?:\/.*)?$/iu;
const urlCharacters = /^[\w.~%!$&'()*+,;=:@[\]/-]*$/u;

/** What is wrong with a `service_url`, as a predicate for an error message (PA-010, PA-011). */
export function serviceUrlProblem(text: string): string | undefined {
  if (!/^https?:\/\//iu.test(text)) return "must begin with http:// or https://";
  if (/[?#]/u.test(text)) return "must have neither a query nor a fragment";
  if (!urlCharacters.test(text) || !serviceUrlForm.test(text) || !URL.canParse(text)) return "is not a URL with a host";
  const { pathname } = new URL(text);
  if (endpointPath.test(pathname)) {
    return "must not end in /sideband, /sideband/request or /sideband/response: these are added to it";
  }
  return undefined;
}
