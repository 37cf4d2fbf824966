import * as z from "zod";

import { duration } from "../lib/duration.ts";
import { minSealSecretBytes } from "../lib/keys/sealing.ts";

const secret = z
  .string()
  .refine((text) => Buffer.byteLength(text) >= minSealSecretBytes, {
    error: `must have at least ${minSealSecretBytes} bytes; make one with \`openssl rand -base64 32\``,
  })
  .meta({ writeOnly: true });

const redisUrl = z
  .string()
  .regex(/^(?:redis|valkey)s?:\/\//u, { error: "must begin with redis://, rediss://, valkey:// or valkeys://" })
  .meta({ writeOnly: true });

const isEncrypted = (url: string): boolean => /^(?:redis|valkey)s:/u.test(url);

const pemFile = z.string().min(1).optional();

const redisTls = z
  .strictObject({
    caFile: pemFile.describe("PEM file with the CA certificates to trust instead of the system's."),
    certFile: pemFile.describe("PEM file with the client certificate, which Redis asks for unless told otherwise."),
    keyFile: pemFile.describe("PEM file with the private key of the client certificate."),
  })
  .refine(({ certFile, keyFile }) => (certFile === undefined) === (keyFile === undefined), {
    error: "`certFile` and `keyFile` go together",
  });

/** Leases are renewed every second and last for 15. */
const longestCommandMs = 5000;

/** The `state` part of the configuration. */
export const stateConfig = z.strictObject({
  keys: z
    .array(secret)
    .min(1)
    .optional()
    .describe(
      "Secrets that seal session ids and other state that clients carry. Gateways with the same keys accept each other's. The first key seals and all of them open: to rotate, put the new key first. Default: a random key in `folder`.",
    ),
  folder: z
    .string()
    .min(1)
    .optional()
    .describe(
      "Folder for the key file and the list of ended sessions. `headgate run` has a default in the user's data folder. Without a folder and keys, sessions end with the process.",
    ),
  redis: z
    .strictObject({
      url: redisUrl.describe("URL of a Redis or Valkey server; needs the package `@redis/client`."),
      sentinel: z
        .strictObject({
          name: z.string().min(1).describe("Name of the primary, as the sentinels know it."),
          urls: z.array(redisUrl).min(1).describe("URLs of the sentinels, with their own credentials."),
        })
        .optional()
        .describe(
          "Redis Sentinel: asked which server is the primary, at the start and after a failure. Its address takes the place of the one in `url`.",
        ),
      tls: redisTls
        .optional()
        .describe("Certificates for rediss:// and valkeys:// URLs, those of sentinels included. Read at the start."),
      prefix: z
        .string()
        .default("hg:")
        .describe(
          "Prefix of every key, for a server that others use too. On a node of a Redis Cluster, it must have a hash tag, such as `{hg}:`.",
        ),
    })
    .refine(({ url, sentinel, tls }) => tls === undefined || [url, ...(sentinel?.urls ?? [])].some(isEncrypted), {
      path: ["tls"],
      error: "needs a URL that begins with rediss:// or valkeys://",
    })
    .optional()
    .describe("What several gateways share: which are alive, which sessions have ended, and who serves a session."),
  postgres: z
    .string()
    .regex(/^postgres(?:ql)?:\/\//u, { error: "must begin with postgres:// or postgresql://" })
    .meta({ writeOnly: true })
    .optional()
    .describe("URL of a PostgreSQL database to use instead of `redis`; needs the package `pg`."),
  timeout: duration
    .refine((milliseconds) => milliseconds <= longestCommandMs, { error: "must be at most 5s" })
    .prefault("250ms")
    .describe(
      "Time limit for one command. A store that takes longer counts as unavailable: calls that need it are refused or served without it.",
    ),
  required: z
    .boolean()
    .default(true)
    .describe("Whether the gateway refuses to start while `redis` or `postgres` cannot be reached."),
});

/** The `cluster` part of the configuration. */
export const clusterConfig = z.strictObject({
  listen: z
    .strictObject({
      host: z.string().min(1).describe("Address for peers only."),
      port: z.int().min(0).max(65_535).describe("Port for peers; 0 for any free port."),
    })
    .describe("Where other gateways forward requests that this one serves."),
  advertise: z
    .string()
    .regex(/^https?:\/\/[^/?#]+$/u, { error: "must be an address such as http://10.0.0.5:8486, without a path" })
    .optional()
    .describe("Where peers reach this gateway, with https if there is `tls`. Default: the address of `listen`."),
  secret: secret
    .optional()
    .describe(
      "The same for all gateways: proves that a request comes from one of them. Default, with `tls`: `state.keys`.",
    ),
  tls: z
    .strictObject({
      certFile: z.string().min(1).describe("PEM file with this gateway's certificate, for both ends of a connection."),
      keyFile: z.string().min(1).describe("PEM file with the private key."),
      caFile: z
        .string()
        .min(1)
        .describe("PEM file with the CA that signs the gateways' certificates, and no others: names are not compared."),
    })
    .optional()
    .describe("Mutual TLS between gateways. Without it, requests are sealed but can be read on the network."),
});
