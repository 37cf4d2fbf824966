import * as z from "zod";

import { isAddress, isHost, isNetwork, isOrigin, parseUrl } from "../lib/addresses.ts";

const port = z.int().min(0).max(65_535);
const host = z.string().refine(isAddress, { error: "is not a host name or IP address" });

const hostPattern = z
  .string()
  .refine((text) => text === "*" || isHost(text), { error: "is not a host name with an optional port" });

/** An origin of browsers, or `*` for all. */
const origin = z.string().refine((text) => text === "*" || isOrigin(text), {
  error: "is not an origin such as https://app.example.com (no path, no default port)",
});

/** Which pages of browsers may call. */
export const corsConfig = z.strictObject({
  origins: z
    .array(origin)
    .default([])
    .describe("Origins whose pages may call and read the answers; `*` for all. They need not be in `allowedOrigins`."),
});

const serverTls = z.strictObject({
  certFile: z.string().min(1).describe("PEM file with the certificate and its chain; read again when it changes."),
  keyFile: z.string().min(1).describe("PEM file with the key of the certificate."),
  caFile: z.string().min(1).optional().describe("PEM file with the authorities whose client certificates are taken."),
  clientCertificate: z
    .enum(["required", "optional"])
    .default("required")
    .describe(
      "With `caFile`: whether a client without a certificate may connect, to show credentials of another kind.",
    ),
});

/** The `listen` part of the configuration: where clients connect. */
export const listenConfig = z.strictObject({
  host: host.default("127.0.0.1").describe("Address to listen on; only this machine can reach the default."),
  port: port.default(8484).describe("Port to listen on; 0 takes any free one."),
  unixSocket: z.string().min(1).optional().describe("Path of a Unix socket to listen on instead of host and port."),
  tls: serverTls.optional().describe("Certificate for https."),
  publicUrl: z
    .string()
    .refine(isPublicUrl, { error: "is not an http or https URL without query and fragment" })
    .meta({ format: "uri" })
    .optional()
    .describe("The URL under which clients know this gateway, where a proxy stands before it."),
  trustedProxies: z
    .array(z.string().refine(isNetwork, { error: "is not an IP address or network such as 10.0.0.0/8" }))
    .default([])
    .describe("Addresses or networks of proxies that are believed when X-Forwarded-For says who the client is."),
  allowedHosts: z
    .array(hostPattern)
    .default([])
    .describe("Host headers that are accepted besides loopback names, `host` and `publicUrl`; `*` for all."),
  allowedOrigins: z
    .array(origin)
    .default([])
    .describe("Origin headers that are accepted besides loopback ones and `publicUrl`; `*` for all."),
  cors: corsConfig.prefault({}).describe("Answers to pages of browsers."),
  allowAnonymous: z
    .boolean()
    .default(false)
    .describe(
      "Says in words that everybody who can connect may call without credentials; needed beyond loopback for every route that lets such callers in.",
    ),
});

/** The `admin` part of the configuration: where operators and their tools connect. */
export const adminConfig = z
  .union(
    [
      z.strictObject({
        host: host.default("127.0.0.1").describe("Address to listen on; only this machine can reach the default."),
        port: port.default(8485).describe("Port to listen on; 0 takes any free one."),
        allowAnonymous: z
          .boolean()
          .default(false)
          .describe("Says in words that everybody who can connect may look; needed beyond loopback."),
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
