import * as z from "zod";

import { compileMapping } from "./mapping.ts";
import { pdpUrlProblem } from "./metadata.ts";

/** A field for a duration in milliseconds with its default as people write it; the configuration hands its own in. */
type DurationField = (fallback: string) => z.ZodPrefault<z.ZodType<number, string | number>>;

const headerName = z.string().regex(/^[!#$%&'*+.^_`|~\dA-Za-z-]+$/u, { error: "is not the name of an HTTP header" });

const file = z.string().min(1).optional();

const claim = z.string().min(1).max(200);

const mapping = z
  .record(z.string(), z.unknown())
  .superRefine((value, context) => {
    compileMapping(value, ({ message, path, offset }) => {
      context.addIssue({ code: "custom", message, path: [...path], params: { offset } });
    });
  })
  .meta({ title: "mapping" });

/** The `authzen` part of a policy: a decision point that speaks the AuthZEN Authorization API 1.0. */
export function createAuthZenConfig(duration: DurationField) {
  return z
    .strictObject({
      url: z
        .string()
        .meta({ format: "uri" })
        .describe("The identifier of the decision point, a URL; its metadata and endpoints are found from it."),
      allowHttp: z
        .boolean()
        .default(false)
        .describe("Whether `url` may be http beyond this machine, where something else protects the way."),
      token: z
        .string()
        .min(1)
        .optional()
        .meta({ writeOnly: true })
        .describe("Bearer token by which the decision point knows the gateway."),
      headers: z
        .record(headerName, z.string())
        .default({})
        .meta({ writeOnly: true })
        .describe("Further headers of every question, such as an API key."),
      discovery: z
        .boolean()
        .default(true)
        .describe(
          "Whether the metadata of the decision point says where its endpoints are; if not, or where it has none, they have the paths of the specification.",
        ),
      resourceId: z
        .string()
        .min(1)
        .optional()
        .describe("What the server behind the route is called in questions; the token's audience unless given."),
      subjectClaim: claim.default("sub").describe("The claim of the token that says on whose behalf an agent acts."),
      agentClaim: claim.default("client_id").describe("The claim of the token that says which agent acts."),
      sendArguments: z
        .boolean()
        .default(false)
        .describe("Whether questions about tool calls and prompts hold the arguments, as `context.arguments`."),
      maxArgumentBytes: z
        .int()
        .min(1)
        .default(65_536)
        .describe("Most bytes of arguments that are sent; calls with more are refused."),
      mappings: z
        .record(z.string().min(1), mapping)
        .default({})
        .describe("How calls of a tool become questions, by its name; goes before what the server declares."),
      declaredMappings: z
        .enum(["use", "ignore"])
        .default("use")
        .describe(
          "Whether `x-authzen-mapping` in the input schema of a tool counts. If so, calls of tools that nobody has listed yet are refused.",
        ),
      lists: z
        .enum(["filter", "show"])
        .default("filter")
        .describe("Whether lists hold only what may be used, asked for a page at once, or everything."),
      denied: z
        .enum(["unknown", "forbidden"])
        .optional()
        .describe(
          "Whether what lists do not show is answered as an unknown name or as forbidden; unknown unless given, forbidden with `refusals: coaz` or `lists: show`.",
        ),
      reason: z
        .string()
        .regex(/^(?:\/(?:[^/~]|~[01])*)+$/u, { error: "is not a JSON Pointer such as `/reason_user/en`" })
        .optional()
        .describe("JSON Pointer into the `context` of a denial, to the words that the agent is told."),
      maxBatch: z.int().min(1).max(1000).default(100).describe("Most decisions that one question asks for."),
      connectionTimeout: duration("2s").describe("How long one attempt to ask may take."),
      connectionKeepalive: duration("60s").describe("How long connections are kept for the next question."),
      retries: z.int().min(0).max(10).default(1).describe("Further attempts after a failure or a status of 5xx."),
      retryPause: duration("100ms").describe("The pause before each of them."),
      circuitBreaker: z
        .boolean()
        .default(true)
        .describe("Whether the decision point is left alone for a while after a failure."),
      circuitBreakerPause: duration("10s").describe("How long, unless it says so itself by `Retry-After`."),
      cache: z
        .strictObject({
          entries: z.int().min(0).default(10_000).describe("Most decisions that are kept; 0 for none."),
          seconds: z
            .number()
            .min(0)
            .max(86_400)
            .default(0)
            .describe("How long a decision is kept about which the decision point says nothing."),
          maxAge: duration("5m").describe("The longest time for which its `Cache-Control: max-age` is believed."),
        })
        .prefault({})
        .describe("Decisions that are not asked for again, for as long as the decision point allows."),
      verifyServiceCert: z
        .boolean()
        .default(true)
        .describe("Whether the certificate of the decision point is checked; off for test environments only."),
      tls: z
        .strictObject({
          caFile: file.describe("PEM file with the authorities that are trusted instead of the system's."),
          certFile: file.describe("PEM file with the certificate to show to the decision point."),
          keyFile: file.describe("PEM file with the key of that certificate."),
        })
        .refine(({ certFile, keyFile }) => (certFile === undefined) === (keyFile === undefined), {
          error: "`certFile` and `keyFile` go together",
        })
        .optional()
        .describe("Own authorities and client certificate for https."),
    })
    .superRefine(({ url, allowHttp }, context) => {
      const message = pdpUrlProblem(url, allowHttp);
      if (message !== undefined) context.addIssue({ code: "custom", message, path: ["url"] });
    });
}

type Parsed = z.output<ReturnType<typeof createAuthZenConfig>>;

/** An AuthZEN provider as it is configured. */
export type AuthZenConfig = Readonly<Parsed>;
