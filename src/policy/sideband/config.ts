import * as z from "zod";

import { recognizedMethods } from "../../protocol/http/mcp-context.ts";
import { parseSidebandSettings, settingDefinitions, type SidebandSettings } from "./settings.ts";
import { serviceUrlProblem } from "../pdp/service-url.ts";

/** A field for a duration in milliseconds with its default as people write it; the configuration hands its own in. */
type DurationField = (fallback: string) => z.ZodPrefault<z.ZodType<number, string | number>>;

const headerName = z.string().regex(/^[!#$%&'*+.^_`|~\dA-Za-z-]+$/u, { error: "is not the name of an HTTP header" });

const file = z.string().min(1).optional();

const methods = z.enum(recognizedMethods);

/** What a setting is for, in the words of the table that Kong's schema is made from too. */
const about = (name: keyof SidebandSettings): string => settingDefinitions[name].description;

/**
 * The `pingAuthorize` part of a policy: the settings of the Sideband engine under the names and in the units of the
 * gateway. What is about a proxied HTTP request (`strip_accept_encoding`, `include_full_cert_chain`) or has its own
 * place in the gateway's configuration (`fail_open`, the form of refusals) is not among them.
 */
export function createSidebandConfig(duration: DurationField) {
  return z.strictObject({
    serviceUrl: z
      .string()
      .superRefine((text, context) => {
        const message = serviceUrlProblem(text);
        if (message !== undefined) context.addIssue({ code: "custom", message });
      })
      .meta({ format: "uri" })
      .describe(about("service_url")),
    sharedSecret: z.string().min(1).meta({ writeOnly: true }).describe(about("shared_secret")),
    secretHeaderName: headerName.describe(about("secret_header_name")),
    publicUrl: z
      .string()
      .regex(/^https?:\/\/[^/?#@]+$/iu, { error: "expected a URL such as `https://mcp.example.com`" })
      .default("http://localhost")
      .describe("What the URLs that the policy sees begin with."),
    connectionTimeout: duration("10s").describe(about("connection_timeout_ms")),
    connectionKeepalive: duration("60s").describe(about("connection_keepalive_ms")),
    verifyServiceCert: z.boolean().default(true).describe(about("verify_service_cert")),
    tls: z
      .strictObject({
        caFile: file.describe("PEM file with the authorities that are trusted instead of the system's."),
        certFile: file.describe("PEM file with the certificate to show to PingAuthorize."),
        keyFile: file.describe("PEM file with the key of that certificate."),
      })
      .refine(({ certFile, keyFile }) => (certFile === undefined) === (keyFile === undefined), {
        error: "`certFile` and `keyFile` go together",
      })
      .optional()
      .describe("Own authorities and client certificate for https."),
    skipResponsePhase: z.boolean().default(false).describe(about("skip_response_phase")),
    passthroughStatusCodes: z
      .array(z.int().min(400).max(599))
      .default([413])
      .describe(about("passthrough_status_codes")),
    maxRetries: z.int().min(0).max(100).default(0).describe(about("max_retries")),
    retryBackoff: duration("500ms").describe(about("retry_backoff_ms")),
    retryMethods: z
      .array(methods)
      .default(["tools/list", "resources/list", "prompts/list", "initialize"])
      .describe(about("mcp_retry_methods")),
    circuitBreaker: z.boolean().default(true).describe(about("circuit_breaker_enabled")),
    extractHeaders: z.array(headerName).default([]).describe(about("extract_headers")),
    maxPayloadBytes: z.int().min(0).default(0).describe(about("max_sideband_body_bytes")),
    maxPayloadAction: z.enum(["truncate", "reject"]).default("truncate").describe(about("max_sideband_body_action")),
    debugLogging: z.boolean().default(false).describe(about("enable_debug_logging")),
    debugBodyMaxBytes: z.int().min(0).default(8192).describe(about("debug_body_max_bytes")),
    redactHeaders: z.array(headerName).default(["authorization", "cookie"]).describe(about("redact_headers")),
  });
}

type Parsed = z.output<ReturnType<typeof createSidebandConfig>>;

/** A PingAuthorize provider as it is configured. */
export type SidebandConfig = {
  readonly [Name in keyof Parsed]: Parsed[Name] extends (infer Entry)[] ? readonly Entry[] : Parsed[Name];
};

/** The engine's settings for a configured provider. */
export function toSidebandSettings(config: SidebandConfig, failOpen: boolean): SidebandSettings {
  return parseSidebandSettings({
    service_url: config.serviceUrl,
    shared_secret: config.sharedSecret,
    secret_header_name: config.secretHeaderName,
    connection_timeout_ms: config.connectionTimeout,
    connection_keepalive_ms: config.connectionKeepalive,
    verify_service_cert: config.verifyServiceCert,
    skip_response_phase: config.skipResponsePhase,
    fail_open: failOpen,
    passthrough_status_codes: config.passthroughStatusCodes,
    max_retries: config.maxRetries,
    retry_backoff_ms: config.retryBackoff,
    circuit_breaker_enabled: config.circuitBreaker,
    // There is no request to a web server here that could ask for a compressed answer.
    strip_accept_encoding: false,
    enable_debug_logging: config.debugLogging,
    enable_otel: true,
    redact_headers: config.redactHeaders,
    debug_body_max_bytes: config.debugBodyMaxBytes,
    enable_mcp: true,
    max_sideband_body_bytes: config.maxPayloadBytes,
    max_sideband_body_action: config.maxPayloadAction,
    extract_headers: config.extractHeaders,
    mcp_retry_methods: config.retryMethods,
  });
}
