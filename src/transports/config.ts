import * as z from "zod";

import { durationField } from "../lib/duration.ts";
import { headerName } from "../lib/text/header-name.ts";

/** An in-process server; the `McpServer` of the official SDK is one. */
export interface McpServerLike {
  connect(transport: unknown): Promise<void>;
  close(): Promise<void>;
}

/** Creates a server for one session of a legacy client, or for one principal of modern clients. */
export type ServerFactory = () => McpServerLike | Promise<McpServerLike>;

const headerValue = z
  .string()
  // RFC 9110, section 5.5: no control characters but the tab, and no surrounding white space.
  .regex(/^(?:[!-~\u0080-\u00FF](?:[\t -~\u0080-\u00FF]*[!-~\u0080-\u00FF])?)?$/u, {
    error: "has characters that are not allowed in an HTTP header",
  })
  .meta({ writeOnly: true });

const era = z
  .enum(["auto", "legacy", "modern"])
  .default("auto")
  .describe("MCP era of the upstream: `legacy` up to 2025-11-25, `modern` from 2026-07-28. `auto` detects it.");

const path = z.string().min(1).optional();

const clientTls = z
  .strictObject({
    caFile: path.describe("PEM file with the CA certificates to trust instead of the system's."),
    certFile: path.describe("PEM file with the client certificate."),
    keyFile: path.describe("PEM file with the private key of the client certificate."),
    insecure: z.boolean().default(false).describe("Accept any certificate of the upstream. For tests only."),
  })
  .refine(({ certFile, keyFile }) => (certFile === undefined) === (keyFile === undefined), {
    error: "`certFile` and `keyFile` go together",
  });

/** The forms of a server in a configuration, by the type that each of them becomes. */
export function createUpstreamForms<Credentials extends z.ZodType>(credentials: Credentials) {
  const http = z.strictObject({
    url: z.string().superRefine(checkUrl).meta({ format: "uri" }).describe("URL of the MCP endpoint, http or https."),
    transport: z
      .enum(["auto", "streamable-http", "sse"])
      .default("auto")
      .describe("Streamable HTTP or the older HTTP+SSE; `auto` tries them in this order."),
    era,
    headers: z
      .record(headerName, headerValue)
      .prefault({})
      .describe("Headers to send with every request, such as an API key."),
    credentials: credentials
      .optional()
      .describe("Credentials to send to the upstream. The client's own credentials are never forwarded."),
    tls: clientTls.optional().describe("CA certificates and client certificate for https."),
    proxy: z
      .union([z.enum(["auto", "none"]), z.string().superRefine(checkProxy)], {
        error: "expected `auto`, `none` or the http:// URL of a proxy",
      })
      .default("auto")
      .describe("HTTP proxy: a URL, `none`, or `auto` to use HTTP_PROXY, HTTPS_PROXY and NO_PROXY of the environment."),
    connections: z
      .int()
      .min(1)
      .max(10_000)
      .default(1000)
      .describe(
        "Maximum number of connections for calls; further calls wait, callers taking turns. Event streams, answers and notifications do not count. The default is as many as `limits.requests`, so that a burst cannot use up the file descriptors.",
      ),
    idleReuse: durationField("4s").describe(
      "How long an idle connection is reused; keep it below the upstream's own limit.",
    ),
  });
  const stdio = z.strictObject({
    command: z.string().min(1).describe("Program to start, looked up in PATH; no shell is involved."),
    args: z.array(z.string()).default([]).describe("Arguments of the program."),
    env: z
      .record(
        z.string().regex(/^[^=\0]+$/u, { error: "is not the name of an environment variable" }),
        z.string().meta({ writeOnly: true }),
      )
      .default({})
      .describe(
        "Environment variables of the program. Inherited are PATH, HOME and the like, proxies and certificates (`HTTPS_PROXY`, `NODE_EXTRA_CA_CERTS`, …) and settings of npm, pip and uv, except what looks like a secret.",
      ),
    cwd: path.describe("Working directory. Default: that of the gateway."),
    sharing: z
      .enum(["session", "principal", "shared"])
      .default("session")
      .describe("Which sessions share one process: none, all of a principal, or all."),
    maxChildren: z.int().min(1).max(10_000).default(16).describe("Maximum number of processes of this route."),
    era,
  });
  const demo = z.strictObject({ demo: z.literal(true).describe("Run the built-in demo server.") });
  const recordings = z.strictObject({
    recordings: z
      .literal(true)
      .describe("Serve this gateway's own recordings, read-only: find, read, explain and compare exchanges."),
  });
  const inProcess = z.strictObject({
    server: z.custom<ServerFactory>((value) => typeof value === "function", {
      error: "is for the library only: a function that creates a server",
    }),
  });
  return { http, stdio, demo, recordings, inProcess };
}

/** The error for a server that has none of the forms, or several. */
export const upstreamFormError = "needs exactly one of `url`, `command`, `demo` and `recordings`";

/** The `upstream` part of a route: the server behind it. */
export function createUpstreamConfig<Credentials extends z.ZodType>(credentials: Credentials) {
  const { http, stdio, demo, recordings, inProcess } = createUpstreamForms(credentials);
  return z.union(
    [
      http.transform((upstream) => ({ type: "http" as const, ...upstream })),
      stdio.transform((upstream) => ({ type: "stdio" as const, ...upstream })),
      demo.transform(() => ({ type: "demo" as const })),
      recordings.transform(() => ({ type: "recordings" as const })),
      inProcess.transform((upstream) => ({ type: "in-process" as const, ...upstream })),
    ],
    { error: upstreamFormError },
  );
}

function checkUrl(text: string, context: z.RefinementCtx): void {
  const problem = URL.canParse(text) ? problemOfUrl(new URL(text)) : describeBadUrl(text);
  if (problem !== undefined) context.addIssue({ code: "custom", message: problem });
}

function describeBadUrl(text: string): string {
  const variable = /^\$(?<name>[A-Z_a-z]\w*)/u.exec(text)?.groups?.["name"];
  if (variable !== undefined) return `is not a URL; write \`\${env:${variable}}\` to read an environment variable`;
  if (text === "") return "is empty; write a URL such as `https://mcp.example.com/mcp`";
  if (/^https?:/iu.test(text)) return "is not a URL such as `https://mcp.example.com/mcp`; check its host and port";
  return "is not a URL; begin it with `http://` or `https://`";
}

function problemOfUrl(url: URL): string | undefined {
  if (url.protocol !== "http:" && url.protocol !== "https:")
    return "is not an http or https URL; begin it with `http://` or `https://`";
  if (url.username !== "" || url.password !== "") return "contains credentials; put them in `headers`";
  return url.hash === "" ? undefined : "has a fragment, which is never sent";
}

function checkProxy(text: string, context: z.RefinementCtx): void {
  if (URL.canParse(text) && /^https?:$/u.test(new URL(text).protocol)) return;
  context.addIssue({ code: "custom", message: "is not the http:// URL of a proxy" });
}
