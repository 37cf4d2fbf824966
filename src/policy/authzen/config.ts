import * as z from "zod";

import { anyDuration, durationField } from "../../lib/duration.ts";
import { anyHeaderName } from "../../lib/text/header-name.ts";
import { pdpTlsConfig } from "../pdp/call.ts";
import { compileMapping } from "./mapping.ts";

const claim = z.string().min(1).max(200);

const mapping = z
  .record(z.string(), z.unknown())
  .superRefine((value, context) => {
    compileMapping(value, ({ message, path, offset }) => {
      context.addIssue({ code: "custom", message, path: [...path], params: { offset } });
    });
  })
  .meta({ title: "mapping" });

/** The `authzen` section of a policy: a decision point that speaks the AuthZEN Authorization API 1.0. */
export const authZenConfig = z
  .strictObject({
    url: z
      .string()
      .meta({ format: "uri" })
      .describe("URL that identifies the decision point; its metadata and endpoints are derived from it."),
    allowHttp: z
      .boolean()
      .default(false)
      .describe("Allow an http `url` beyond this machine, where something else protects the connection."),
    token: z
      .string()
      .min(1)
      .optional()
      .meta({ writeOnly: true })
      .describe("Bearer token that authenticates the gateway to the decision point."),
    headers: z
      .record(anyHeaderName, z.string())
      .default({})
      .meta({ writeOnly: true })
      .describe("Additional headers of every evaluation request, such as an API key."),
    discovery: z
      .boolean()
      .default(true)
      .describe("Read the endpoints from the decision point's metadata; otherwise use the paths of the specification."),
    resourceId: z
      .string()
      .min(1)
      .optional()
      .describe("Id of the MCP server in evaluation requests; the token's audience if omitted."),
    subjectClaim: claim.default("sub").describe("Token claim with the user on whose behalf the agent acts."),
    agentClaim: claim.default("client_id").describe("Token claim with the agent."),
    sendArguments: z
      .boolean()
      .default(false)
      .describe("Send the arguments of tool calls and prompts, as `context.arguments`."),
    maxArgumentBytes: z
      .int()
      .min(1)
      .default(65_536)
      .describe("Maximum bytes of arguments to send; calls with more are refused."),
    mappings: z
      .record(z.string().min(1), mapping)
      .default({})
      .describe("Evaluation requests for tool calls, by tool name; wins over what the server declares."),
    declaredMappings: z
      .enum(["use", "ignore"])
      .default("use")
      .describe(
        "Use `x-authzen-mapping` from a tool's input schema. If so, calls of tools that have not been listed yet are refused.",
      ),
    lists: z
      .enum(["filter", "show"])
      .default("filter")
      .describe("Filter lists to what the caller may use, one evaluation batch per page, or show everything."),
    denied: z
      .enum(["unknown", "forbidden"])
      .optional()
      .describe(
        "Answer calls of names that lists do not show as unknown or as forbidden. Defaults to unknown, or to forbidden with `refusals: coaz` or `lists: show`.",
      ),
    reason: z
      .string()
      .regex(/^(?:\/(?:[^/~]|~[01])*)+$/u, { error: "is not a JSON Pointer such as `/reason_user/en`" })
      .optional()
      .describe("JSON Pointer into the `context` of a denial, to the message for the agent."),
    maxBatch: z.int().min(1).max(1000).default(100).describe("Maximum number of decisions per evaluation request."),
    connectionTimeout: durationField("2s").describe("Time limit for one attempt."),
    connectionKeepalive: durationField("60s").describe("How long idle connections are kept open."),
    retries: z.int().min(0).max(10).default(1).describe("Retries after a network failure or a 5xx status."),
    retryBackoff: durationField("100ms").describe("Pause before each retry."),
    circuitBreaker: z.boolean().default(true).describe("Stop calling the decision point for a while after a failure."),
    circuitBreakerPause: durationField("10s").describe("How long the breaker stays open without a `Retry-After`."),
    cache: z
      .strictObject({
        entries: z.int().min(0).default(10_000).describe("Maximum number of cached decisions; 0 disables the cache."),
        ttl: anyDuration.prefault(0).describe("How long to cache a decision that has no `Cache-Control: max-age`."),
        maxAge: durationField("5m").describe("Upper limit for `Cache-Control: max-age`."),
      })
      .prefault({})
      .describe("Cache of decisions, for as long as the decision point allows."),
    verifyServiceCert: z
      .boolean()
      .default(true)
      .describe("Verify the certificate of the decision point; disable in test environments only."),
    tls: pdpTlsConfig.optional().describe("Trusted authorities and client certificate for https."),
  })
  .superRefine(({ url, allowHttp }, context) => {
    const message = urlProblem(url, allowHttp);
    if (message !== undefined) context.addIssue({ code: "custom", message, path: ["url"] });
  });

/** A configured AuthZEN provider. */
export type AuthZenConfig = Readonly<z.output<typeof authZenConfig>>;

function urlProblem(text: string, allowHttp: boolean): string | undefined {
  if (!/^https?:\/\//iu.test(text) || !URL.canParse(text)) return "is not an http or https URL";
  const { protocol, hostname, search, hash, username, password } = new URL(text);
  if (search !== "" || hash !== "") return "must have neither a query nor a fragment";
  if (username !== "" || password !== "") return "must not contain credentials; use `token` or `headers`";
  if (protocol === "https:" || allowHttp || isLoopback(hostname)) return undefined;
  return "must be https (AuthZEN, section 10.1); set `allowHttp: true` if something else protects the connection";
}

function isLoopback(hostname: string): boolean {
  return hostname === "localhost" || hostname === "[::1]" || /^127(?:\.\d{1,3}){3}$/u.test(hostname);
}
