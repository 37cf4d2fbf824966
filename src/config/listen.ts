import * as z from "zod";

import { signInConfig } from "../auth/config.ts";
import { schemeHint } from "../lib/text/value-hints.ts";
import { isAddress, isHost, isNetwork, isOrigin, parseUrl } from "../lib/addresses.ts";

const port = z.int().min(0).max(65_535);
const host = z
  .string()
  .refine((text) => isAddress(text) && !/[[\]*]/u.test(text), { error: ({ input }) => hostProblem(String(input)) });

/** What is wrong with an address to listen on. */
function hostProblem(text: string): string {
  const problem = "is not a host name or IP address";
  if (text === "*") return `${problem}; \`0.0.0.0\` or \`::\` listens on all addresses`;
  const url = parseUrl(text.includes("://") ? text : `http://${text}`);
  const bare = url?.hostname.replaceAll(/[[\]]/gu, "") ?? "";
  if (bare === "") return problem;
  return `${problem}; write \`${bare}\`${url?.port === "" ? "" : ", and the port in `port`"}`;
}

const hostPattern = z
  .string()
  .refine((text) => text === "*" || isHost(text), { error: "is not a host name with an optional port" });

/** The origin of a page, or `*` for all. */
const origin = z.string().refine((text) => text === "*" || isOrigin(text), {
  error: "is not an origin such as https://app.example.com (no path, no default port)",
});

/** The `cors` part of the configuration: pages of which origins may call. */
export const corsConfig = z.strictObject({
  origins: z
    .array(origin)
    .default([])
    .describe(
      "Origins whose pages may call and read responses; `*` for all. They need not be in `listen.allowedOrigins`.",
    ),
});

const serverTls = z.strictObject({
  certFile: z.string().min(1).describe("PEM file with the certificate and its chain; reloaded when it changes."),
  keyFile: z.string().min(1).describe("PEM file with the private key."),
  caFile: z.string().min(1).optional().describe("PEM file with the CA certificates for client certificates."),
  clientCertificate: z
    .enum(["required", "optional"])
    .default("required")
    .describe("With `caFile`: whether every client must have a certificate, or may use other credentials."),
});

/** The `listen` part of the configuration: where clients connect. */
export const listenConfig = z.strictObject({
  host: host.default("127.0.0.1").describe("Address to listen on."),
  port: port.default(8484).describe("Port to listen on; 0 for any free port."),
  unixSocket: z.string().min(1).optional().describe("Path of a Unix socket to listen on, instead of host and port."),
  socketMode: z
    .string({ error: 'is not a file mode in quotes, such as "0660"' })
    .regex(/^0?[0-7]{3}$/u, { error: 'is not a file mode such as "0660"' })
    .default("0600")
    .describe("Who may connect to the Unix socket, as a file mode: `0600` the gateway's user, `0660` also its group."),
  tls: serverTls.optional().describe("Certificate and key for https."),
  publicUrl: z
    .string()
    .refine(isPublicUrl, {
      error: ({ input }) => `is not an http or https URL without query and fragment${schemeHint(input, isPublicUrl)}`,
    })
    .meta({ format: "uri" })
    .optional()
    .describe("URL of this gateway as clients see it, for example behind a proxy."),
  trustedProxies: z
    .array(z.string().refine(isNetwork, { error: "is not an IP address or network such as 10.0.0.0/8" }))
    .default([])
    .describe("Addresses or networks of proxies whose X-Forwarded-For header is trusted."),
  allowedHosts: z
    .array(hostPattern)
    .default([])
    .describe("Accepted Host headers besides loopback names, `host` and `publicUrl`; `*` for all."),
  allowedOrigins: z
    .array(origin)
    .default([])
    .describe("Accepted Origin headers besides loopback origins and `publicUrl`; `*` for all."),
  allowAnonymous: z
    .boolean()
    .default(false)
    .describe("Allow unauthenticated callers on a non-loopback address. Required there if any route admits them."),
});

/** The `admin` part of the configuration: where operators and their tools connect. */
export const adminConfig = z
  .union(
    [
      z.strictObject({
        host: host.default("127.0.0.1").describe("Address to listen on."),
        port: port.default(8485).describe("Port to listen on; 0 for any free port."),
        publicUrl: z
          .string()
          .refine(isPublicUrl, {
            error: ({ input }) =>
              `is not an http or https URL without query and fragment${schemeHint(input, isPublicUrl)}`,
          })
          .meta({ format: "uri" })
          .optional()
          .describe("URL of the admin listener as browsers see it, for example behind a proxy; `/console` follows."),
        signIn: signInConfig
          .optional()
          .describe("Sign people in to the console by OpenID Connect. Default: only links of `headgate console`."),
        allowAnonymous: z
          .boolean()
          .default(false)
          .describe(
            "Allow unauthenticated access to readiness and metrics on a non-loopback address. Required there; console and API always need a sign-in.",
          ),
      }),
      z.literal(false),
    ],
    { error: "expected an object with `host` and `port`, or `false`" },
  )
  .prefault({});

function isPublicUrl(text: string): boolean {
  const url = parseUrl(text);
  if (url === undefined || !/^https?:$/u.test(url.protocol)) return false;
  return url.search === "" && url.hash === "" && url.username === "" && url.password === "";
}
