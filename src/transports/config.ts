import * as z from "zod";

/** A field for a duration in milliseconds with its default as people write it; the configuration hands its own in. */
type DurationField = (fallback: string) => z.ZodPrefault<z.ZodType<number, string | number>>;

/** What an in-process upstream is made of: the official SDK's `McpServer` fits. */
export interface McpServerLike {
  connect(transport: unknown): Promise<void>;
  close(): Promise<void>;
}

/** Makes a server for one scope: a session of a legacy client, a principal of modern ones. */
export type ServerFactory = () => McpServerLike | Promise<McpServerLike>;

/**
 * Headers that belong to the connection or that the transports write themselves; they can neither be configured nor
 * forwarded (RFC 9110, section 7.6.1; MCP 2025-11-25 and 2026-07-28, Streamable HTTP).
 */
const managedHeaders: ReadonlySet<string> = new Set([
  "accept",
  "accept-encoding",
  "connection",
  "content-encoding",
  "content-length",
  "content-type",
  "expect",
  "host",
  "keep-alive",
  "last-event-id",
  "proxy-authenticate",
  "proxy-authorization",
  "proxy-connection",
  "te",
  "trailer",
  "transfer-encoding",
  "upgrade",
]);

/** The name of a header that may be configured or forwarded; lower-case once read. */
export const headerName = z
  .string()
  .regex(/^[!#$%&'*+.^_`|~\dA-Za-z-]+$/u, { error: "is not the name of an HTTP header" })
  .transform((name) => name.toLowerCase())
  .refine((name) => !managedHeaders.has(name) && !name.startsWith("mcp-"), {
    error: "is a header that the gateway writes itself",
  });

const headerValue = z
  .string()
  // RFC 9110, section 5.5: no control characters but the tab, and no white space around it.
  .regex(/^(?:[!-~\u0080-\u00FF](?:[\t -~\u0080-\u00FF]*[!-~\u0080-\u00FF])?)?$/u, {
    error: "has characters that no HTTP header may carry",
  })
  .meta({ writeOnly: true });

const era = z
  .enum(["auto", "legacy", "modern"])
  .default("auto")
  .describe("The era of MCP that the upstream speaks; `auto` asks it.");

const clientTls = z
  .strictObject({
    caFile: z
      .string()
      .min(1)
      .optional()
      .describe("PEM file with the authorities that are trusted instead of the system's."),
    certFile: z.string().min(1).optional().describe("PEM file with the client certificate to show."),
    keyFile: z.string().min(1).optional().describe("PEM file with the key of the client certificate."),
    insecure: z
      .boolean()
      .default(false)
      .describe("Accepts any certificate of the upstream; for tests on a machine of one's own only."),
  })
  .refine(({ certFile, keyFile }) => (certFile === undefined) === (keyFile === undefined), {
    error: "`certFile` and `keyFile` go together",
  });

/** The `upstream` part of a route: where its server is, how it is spoken to, and what is shown to it. */
export function createUpstreamConfig<Credentials extends z.ZodType>(duration: DurationField, credentials: Credentials) {
  const http = z.strictObject({
    url: z
      .string()
      .superRefine(checkUrl)
      .meta({ format: "uri" })
      .describe("The endpoint of the MCP server, http or https."),
    transport: z
      .enum(["auto", "streamable-http", "sse"])
      .default("auto")
      .describe("Streamable HTTP, or the older HTTP+SSE; `auto` tries them in this order."),
    era,
    headers: z
      .record(headerName, headerValue)
      .prefault({})
      .describe("Headers sent with every request, such as a key of the upstream."),
    credentials: credentials
      .optional()
      .describe("What the gateway shows to the upstream; the client's own credentials never go there."),
    tls: clientTls.optional().describe("Own authorities and client certificate for https."),
    proxy: z
      .union([z.enum(["auto", "none"]), z.string().superRefine(checkProxy)], {
        error: "expected `auto`, `none` or the http:// URL of a proxy",
      })
      .default("auto")
      .describe(
        "HTTP proxy on the way: a URL, `none`, or `auto` for HTTP_PROXY, HTTPS_PROXY and NO_PROXY of the environment.",
      ),
    connections: z
      .int()
      .min(1)
      .max(10_000)
      .default(64)
      .describe("Most connections for calls; event streams do not count."),
    idleReuse: duration("4s").describe("How long an idle connection is used again, below the upstream's own limit."),
  });
  const stdio = z.strictObject({
    command: z.string().min(1).describe("The program to start, looked up in PATH; no shell is involved."),
    args: z.array(z.string()).default([]).describe("Its arguments, one each."),
    env: z
      .record(
        z.string().regex(/^[^=\0]+$/u, { error: "is not the name of an environment variable" }),
        z.string().meta({ writeOnly: true }),
      )
      .default({})
      .describe("Environment variables for it, besides PATH, HOME and a few like them; nothing else is inherited."),
    cwd: z.string().min(1).optional().describe("Its working directory; the gateway's own unless given."),
    sharing: z
      .enum(["session", "principal", "shared"])
      .default("session")
      .describe("Who shares one process: nobody beyond a session, all sessions of a principal, or everybody."),
    maxChildren: z.int().min(1).max(10_000).default(16).describe("Most processes at once on this route."),
    era,
  });
  const demo = z.strictObject({
    demo: z.literal(true).describe("Runs the built-in demo server inside the gateway."),
  });
  const inProcess = z.strictObject({
    server: z.custom<ServerFactory>((value) => typeof value === "function", {
      error: "is for the library only: a function that makes a server",
    }),
  });
  return z.union(
    [
      http.transform((upstream) => ({ type: "http" as const, ...upstream })),
      stdio.transform((upstream) => ({ type: "stdio" as const, ...upstream })),
      demo.transform(() => ({ type: "demo" as const })),
      inProcess.transform((upstream) => ({ type: "in-process" as const, ...upstream })),
    ],
    { error: "needs exactly one of `url`, `command` and `demo`" },
  );
}

function checkUrl(text: string, context: z.RefinementCtx): void {
  const problem = URL.canParse(text) ? problemOfUrl(new URL(text)) : "is not a URL";
  if (problem !== undefined) context.addIssue({ code: "custom", message: problem });
}

function problemOfUrl(url: URL): string | undefined {
  if (url.protocol !== "http:" && url.protocol !== "https:") return "is not an http or https URL";
  if (url.username !== "" || url.password !== "") return "has credentials in it; they belong in `headers`";
  return url.hash === "" ? undefined : "has a fragment, which is never sent";
}

function checkProxy(text: string, context: z.RefinementCtx): void {
  if (URL.canParse(text) && /^https?:$/u.test(new URL(text).protocol)) return;
  context.addIssue({ code: "custom", message: "is not the http:// URL of a proxy" });
}
