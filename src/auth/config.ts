import * as z from "zod";

import { anyDuration, durationField } from "../lib/duration.ts";
import { headerName } from "../lib/text/header-name.ts";
import { isApiKeyHash } from "./api-key.ts";
import { canonicalResource } from "./token-principal.ts";
import { schemeHint } from "../lib/text/value-hints.ts";
import { isSafeUrl } from "./issuer.ts";

/** Stands for callers without credentials in `use`; no authenticator may have this name. */
export const anonymousName = "anonymous";

/** RFC 6749, section 3.3. */
const scope = z
  .string()
  .regex(/^[!#-[\]-~]+$/u, { error: "is not a scope: visible ASCII without quotes and backslashes" });

/** MCP 2026-07-28: `offline_access` does not belong in challenges. */
const demandedScope = scope.refine((name) => name !== "offline_access", {
  error: "is requested by clients, not by resources",
});

const secureUrl = z
  .string()
  .refine(isSafeUrl, {
    error: ({ input }) => `is not an https URL; http is allowed for loopback only${schemeHint(input, isSafeUrl)}`,
  })
  .meta({ format: "uri" });

const issuerUrl = secureUrl
  .refine((name) => !/[?#]/u.test(name), {
    error: "is not an issuer identifier: it must have no query and no fragment",
  })
  .refine((name) => !name.includes("/.well-known/"), {
    error: "is the URL of metadata; the issuer is what that document has as `issuer`, without `/.well-known/…`",
  });

const text = z.string().min(1);
const secret = text.meta({ writeOnly: true });
const count = (min: number, max: number, fallback: number) => z.int().min(min).max(max).default(fallback);

const audience = z
  .array(text.transform(canonicalResource))
  .min(1)
  .optional()
  .describe("Accepted token audiences, instead of the URL of the called endpoint.");

/** Accepted signature algorithms; symmetric ones never are. */
export const signatureAlgorithms = [
  "RS256",
  "RS384",
  "RS512",
  "PS256",
  "PS384",
  "PS512",
  "ES256",
  "ES384",
  "ES512",
  "EdDSA",
  "Ed25519",
] as const;

const clientShape = {
  clientId: text.describe("Client ID of the gateway."),
  clientSecret: secret.optional().describe("Client secret; write `${env:…}` or `${file:…}`."),
  clientAuthentication: z
    .enum(["basic", "post"])
    .default("basic")
    .describe("Send the secret in the Authorization header or in the form."),
};

const claimShape = {
  subjectClaim: text.default("sub").describe("Claim with the id of the caller."),
  allowClients: z
    .boolean()
    .default(false)
    .describe("Accept tokens without the subject claim; the caller is then the client that they name in `client_id`."),
  scopeClaim: text.default("scope").describe("Claim with the scopes, a string or a list."),
};

const skew = anyDuration
  .prefault("30s")
  .describe("Allowed difference between the clocks of the issuer and the gateway.");
const jwt = z.strictObject({
  issuer: issuerUrl.describe("Issuer identifier; its metadata is discovered from it."),
  jwksUri: secureUrl.optional().describe("URL of its keys, for issuers without metadata."),
  audience,
  algorithms: z
    .array(z.enum(signatureAlgorithms))
    .min(1)
    .default([...signatureAlgorithms])
    .describe("Accepted signature algorithms; symmetric ones are never accepted."),
  types: z
    .array(text.toLowerCase())
    .min(1)
    .default(["at+jwt", "jwt"])
    .describe("Accepted values of the `typ` header; `none` accepts a token without one."),
  clockSkew: skew,
  ...claimShape,
  cacheEntries: count(0, 1_000_000, 10_000).describe("Maximum number of verified tokens in the cache."),
});
const introspection = z.strictObject({
  issuer: issuerUrl.describe("Issuer identifier; the introspection endpoint is discovered from its metadata."),
  endpoint: secureUrl.optional().describe("Introspection endpoint, for issuers without metadata."),
  ...clientShape,
  audience,
  clockSkew: skew,
  ...claimShape,
  cacheMaxAge: anyDuration
    .prefault("30s")
    .describe("How long a response of the issuer is cached, which delays revocation; 0 disables the cache."),
  cacheEntries: count(0, 1_000_000, 10_000).describe("Maximum number of cached responses."),
  maxConcurrent: count(1, 10_000, 100).describe("Maximum number of concurrent introspection requests."),
});
const apiKeys = z.strictObject({
  header: headerName.optional().describe("Header with the key. Default: `Authorization: Bearer`."),
  keys: z
    .record(
      z.string().regex(/^[\w.@-]{1,100}$/u, { error: "is not a key name: letters, digits, `.`, `_`, `@`, `-`" }),
      z.strictObject({
        hash: z
          .string()
          .refine(isApiKeyHash, { error: "is not a key hash; `headgate key` prints one" })
          .describe("Hash of the key, as printed by `headgate key`."),
        scopes: z.array(scope).default([]).describe("Scopes of the key."),
        labels: z.record(text, z.string()).default({}).describe("Labels of the owner, for policies and recordings."),
        expires: z.iso
          .datetime({ offset: true, error: "is not a time such as 2027-01-31T00:00:00Z" })
          .optional()
          .describe("When the key expires. Default: never."),
      }),
    )
    .describe("Keys by the name of their owner."),
});
const certificate = z.strictObject({
  identity: z
    .enum(["subject", "uri", "dns", "email", "fingerprint"])
    .default("subject")
    .describe("What identifies the caller: the subject, its only alternative name of one kind, or the fingerprint."),
  scopes: z.array(scope).default([]).describe("Scopes of callers with a certificate."),
});
const authenticatorKinds = {
  jwt: jwt.optional().describe("Signed tokens (JWT, RFC 9068)."),
  introspection: introspection.optional().describe("Tokens verified by the issuer (token introspection, RFC 7662)."),
  apiKeys: apiKeys.optional().describe("API keys listed in this configuration."),
  certificate: certificate.optional().describe("Client certificates issued by a CA in `listen.tls.caFile`."),
};
const authenticatorConfig = z
  .strictObject(authenticatorKinds)
  .refine(hasOne, { error: `needs exactly one of ${listed(Object.keys(authenticatorKinds))}` });

const use = z.array(text).min(1).optional();

/** The `auth` part of a route, where it differs from the general part. */
export const routeAuthConfig = z.strictObject({
  use: use.describe("Authenticators of this route, in order, instead of `auth.use`."),
  scopes: z
    .array(demandedScope)
    .optional()
    .describe("Scopes required of every caller of this route, instead of `auth.scopes`."),
  offeredScopes: z
    .array(demandedScope)
    .optional()
    .describe("Further scopes that clients may request on this route, instead of `auth.offeredScopes`."),
});

const authenticatorName = z
  .string()
  .regex(/^[\da-z][\d._a-z-]{0,99}$/u, { error: "is not a name: lower-case letters, digits, `.`, `_` and `-`" })
  .refine((name) => name !== anonymousName, {
    error: `is reserved: \`${anonymousName}\` stands for callers without credentials`,
  });
/** The `auth` part of the configuration: who may call. */
export const authConfig = z.strictObject({
  authenticators: z
    .record(authenticatorName, authenticatorConfig)
    .default({})
    .describe("How callers are authenticated, by names you choose."),
  use: use.describe(
    "Authenticators to use, in order; `anonymous` admits callers without credentials. Default: all authenticators.",
  ),
  scopes: z.array(demandedScope).default([]).describe("Scopes required of every caller."),
  offeredScopes: z
    .array(demandedScope)
    .default([])
    .describe("Further scopes that clients may request, listed in the metadata of every endpoint."),
  impliedScopes: z
    .record(scope, z.array(scope))
    .default({})
    .describe("Scopes that include others: the key grants every scope of its list."),
});

const tokenShape = {
  issuer: issuerUrl
    .optional()
    .describe("Identifier of the authorization server; its token endpoint is discovered from it."),
  tokenEndpoint: secureUrl.optional().describe("Token endpoint, for servers without metadata."),
  ...clientShape,
  scopes: z.array(scope).default([]).describe("Scopes to request."),
  resource: text.optional().describe("Resource to request a token for (RFC 8707)."),
  audience: text.optional().describe("Audience to request, for servers that use it instead of `resource`."),
};
const token = z.strictObject(tokenShape).refine(hasEndpoint, { error: "needs `issuer` or `tokenEndpoint`" });
const credentialKinds = {
  header: z
    .strictObject({
      name: headerName.prefault("authorization").describe("Name of the header."),
      value: secret.describe("Value of the header; write `${env:…}` or `${file:…}`."),
    })
    .optional()
    .describe("A fixed header."),
  clientCredentials: token
    .optional()
    .describe("A token of the gateway, the same for all callers (RFC 6749, section 4.4)."),
  tokenExchange: token.optional().describe("A token for each caller, in exchange for the caller's own (RFC 8693)."),
};
/** The `credentials` part of an upstream: what the gateway sends to it. */
export const credentialsConfig = z
  .strictObject(credentialKinds)
  .refine(hasOne, { error: `needs exactly one of ${listed(Object.keys(credentialKinds))}` });

const roleOf = (what: string) => z.array(text).default([]).describe(`Values of \`roleClaim\` that ${what}`);

/** The `admin.signIn` part of the configuration: people who use the console, by OpenID Connect. */
export const signInConfig = z.strictObject({
  issuer: issuerUrl.describe("Issuer identifier of the OpenID provider; its metadata is discovered from it."),
  ...clientShape,
  scopes: z.array(scope).default(["profile", "email"]).describe("Scopes to request besides `openid`."),
  nameClaim: text
    .default("preferred_username")
    .describe("Claim with the name to show and to log; the subject is logged too."),
  roleClaim: text
    .default("groups")
    .describe(
      "Claim with the groups or roles of a person, a string or a list; dots lead into objects. `email` counts if it is verified.",
    ),
  roles: z
    .strictObject({
      viewer: roleOf("see traffic, sessions and figures; `*` for everyone whom the issuer logs in."),
      operator: roleOf("also call tools, try policies, and hold and release messages."),
      approver: roleOf("also approve definitions of servers."),
      bodyReader: roleOf("also read what messages say. Every access is logged."),
    })
    .refine((roles) => Object.values(roles).some((values) => values.length > 0), {
      error: "grants no roles; list values of `roleClaim`",
    })
    .describe("Who may do what. A person without a role cannot sign in; every role includes `viewer`."),
  lifetime: durationField("12h").describe("How long a session lasts before the person must sign in again."),
});

function hasOne(kinds: Readonly<Record<string, unknown>>): boolean {
  return Object.values(kinds).filter((kind) => kind !== undefined).length === 1;
}

function hasEndpoint({ issuer, tokenEndpoint }: { readonly issuer?: unknown; readonly tokenEndpoint?: unknown }) {
  return issuer !== undefined || tokenEndpoint !== undefined;
}

function listed(names: readonly string[]): string {
  const quoted = names.map((name) => `\`${name}\``);
  return `${quoted.slice(0, -1).join(", ")} and ${quoted.at(-1)}`;
}
