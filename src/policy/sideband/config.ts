import * as z from "zod";

import { durationField } from "../../lib/duration.ts";
import { recognizedMethods } from "../../protocol/http/mcp-context.ts";
import { anyHeaderName } from "../../lib/text/header-name.ts";
import { pdpTlsConfig } from "../pdp/call.ts";
import { parseSidebandSettings, serviceUrlProblem, settingDefinitions, type SidebandSettings } from "./settings.ts";

/** The description of a setting, shared with Kong's schema. */
const about = (name: keyof SidebandSettings): string => settingDefinitions[name].description;

/**
 * The `pingAuthorize` section of a policy: the settings of the Sideband engine under the names and units of the gateway.
 * Settings about a proxied HTTP request (`strip_accept_encoding`, `include_full_cert_chain`), and those that have
 * another place in the gateway's configuration (`fail_open`, the form of refusals), are left out.
 */
export const sidebandConfig = z.strictObject({
  serviceUrl: z
    .string()
    .superRefine((text, context) => {
      const message = serviceUrlProblem(text);
      if (message !== undefined) context.addIssue({ code: "custom", message });
    })
    .meta({ format: "uri" })
    .describe(about("service_url")),
  sharedSecret: z.string().min(1).meta({ writeOnly: true }).describe(about("shared_secret")),
  secretHeaderName: anyHeaderName.describe(about("secret_header_name")),
  publicUrl: z
    .string()
    .regex(/^https?:\/\/[^/?#@]+$/iu, { error: "expected a URL such as `https://mcp.example.com`" })
    .default("http://localhost")
    .describe("Scheme and host of the URLs sent to the policy."),
  connectionTimeout: durationField("10s").describe(about("connection_timeout_ms")),
  connectionKeepalive: durationField("60s").describe(about("connection_keepalive_ms")),
  verifyServiceCert: z.boolean().default(true).describe(about("verify_service_cert")),
  tls: pdpTlsConfig.optional().describe("Trusted authorities and client certificate for https."),
  skipResponsePhase: z.boolean().default(false).describe(about("skip_response_phase")),
  passthroughStatusCodes: z.array(z.int().min(400).max(599)).default([413]).describe(about("passthrough_status_codes")),
  retries: z.int().min(0).max(100).default(0).describe(about("max_retries")),
  retryBackoff: durationField("500ms").describe(about("retry_backoff_ms")),
  retryMethods: z
    .array(z.enum(recognizedMethods))
    .default(["tools/list", "resources/list", "prompts/list", "initialize"])
    .describe(about("mcp_retry_methods")),
  circuitBreaker: z.boolean().default(true).describe(about("circuit_breaker_enabled")),
  extractHeaders: z.array(anyHeaderName).default([]).describe(about("extract_headers")),
  maxPayloadBytes: z.int().min(0).default(0).describe(about("max_sideband_body_bytes")),
  // Unlike the plugin: of a shortened body the policy sees a prefix, and the server all of it.
  maxPayloadAction: z.enum(["truncate", "reject"]).default("reject").describe(about("max_sideband_body_action")),
  debugLogging: z.boolean().default(false).describe(about("enable_debug_logging")),
  debugBodyMaxBytes: z.int().min(0).default(8192).describe(about("debug_body_max_bytes")),
  redactHeaders: z.array(anyHeaderName).default(["authorization", "cookie"]).describe(about("redact_headers")),
});

type Parsed = z.output<typeof sidebandConfig>;

/** A configured PingAuthorize provider. */
export type SidebandConfig = {
  readonly [Name in keyof Parsed]: Parsed[Name] extends (infer Entry)[] ? readonly Entry[] : Parsed[Name];
};

/** The engine settings of a configured provider. */
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
    max_retries: config.retries,
    retry_backoff_ms: config.retryBackoff,
    circuit_breaker_enabled: config.circuitBreaker,
    // MCP messages have no Accept-Encoding.
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
