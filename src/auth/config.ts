import * as z from "zod";
import { isApiKeyHash } from "./api-key.ts";
import { canonicalResource } from "./token-principal.ts";
import { isSafeUrl } from "./issuer.ts";

/** What the fragments need of the configuration around them. */
export interface AuthConfigDeps {
  /** A duration in milliseconds once read; nothing at all is allowed too. */
  readonly anyDuration: z.ZodType<number, string | number>;
  /** The name of a header that may be configured. */
  readonly headerName: z.ZodType<string, string>;
}

/** The name for callers without credentials, which no authenticator may have. */
export const anonymousName = "anonymous";

/** RFC 6749 section 3.3: the characters of a scope. */
const scope = z
  .string()
  .regex(/^[!#-[\]-~]+$/u, { error: "is not a scope: visible ASCII without quotes and backslashes" });

/** MCP 2026-07-28: a scope that is for clients alone has no place in challenges. */
const demandedScope = scope.refine((name) => name !== "offline_access", {
  error: "is asked for by clients themselves, not by resources",
});

const secureUrl = z
  .string()
  .refine(isSafeUrl, { error: "is not an https URL; http is taken for this machine only" })
  .meta({ format: "uri" });

const issuerUrl = secureUrl.refine((text) => !/[?#]/u.test(text), {
  error: "is not the identifier of an issuer: those have neither query nor fragment",
});

const secret = z.string().min(1).meta({ writeOnly: true });

const audience = z
  .array(z.string().min(1).transform(canonicalResource))
  .min(1)
  .optional()
  .describe("What tokens must be issued for, instead of the URL of the endpoint that is called.");

const algorithms = [
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
  clientId: z.string().min(1).describe("As whom the gateway is known there."),
  clientSecret: secret.optional().describe("The secret of that client; write `${env:…}` or `${file:…}`."),
  clientAuthentication: z
    .enum(["basic", "post"])
    .default("basic")
    .describe("How the secret is shown: in the Authorization header, or in the form."),
};

const claimShape = {
  subjectClaim: z.string().min(1).default("sub").describe("The claim that names the caller."),
  scopeClaim: z.string().min(1).default("scope").describe("The claim that holds the scopes, a text or a list."),
};

function authenticatorConfig({ anyDuration, headerName }: AuthConfigDeps) {
  const skew = anyDuration.prefault("30s").describe("How far the clocks of the issuer and the gateway may be apart.");
  const jwt = z.strictObject({
    issuer: issuerUrl.describe("Identifier of the issuer; its metadata are found there."),
    jwksUri: secureUrl.optional().describe("Where its keys are, for issuers without metadata."),
    audience,
    algorithms: z
      .array(z.enum(algorithms))
      .min(1)
      .default([...algorithms])
      .describe("Signature algorithms that are taken; symmetric ones never are."),
    types: z
      .array(z.string().min(1).toLowerCase())
      .min(1)
      .default(["at+jwt", "jwt"])
      .describe("Values of the `typ` header that are taken; `none` for a token without one."),
    clockSkew: skew,
    ...claimShape,
    remember: z.int().min(0).max(1_000_000).default(10_000).describe("Most verified tokens that are remembered."),
  });
  const introspection = z.strictObject({
    issuer: issuerUrl.describe("Identifier of the issuer; where to introspect is found in its metadata."),
    endpoint: secureUrl.optional().describe("Where to introspect, for issuers without metadata."),
    ...clientShape,
    audience,
    clockSkew: skew,
    ...claimShape,
    cache: anyDuration
      .prefault("30s")
      .describe("How long the issuer's word is believed at most, and so how late a revocation is seen; 0 asks always."),
    remember: z.int().min(0).max(1_000_000).default(10_000).describe("Most answers that are remembered."),
    concurrent: z.int().min(1).max(10_000).default(100).describe("Most questions to the issuer at once."),
  });
  const apiKeys = z.strictObject({
    header: headerName.optional().describe("Header that holds the key; `Authorization: Bearer` unless given."),
    keys: z
      .record(
        z.string().regex(/^[\w.@-]{1,100}$/u, {
          error: "is not a name for a key: letters, digits, `.`, `_`, `@`, `-`",
        }),
        z.strictObject({
          hash: z
            .string()
            .refine(isApiKeyHash, { error: "is not the hash of a key; `headgate key` makes one" })
            .describe("The hash of the key, as `headgate key` prints it; the key itself stays with its owner."),
          scopes: z.array(scope).default([]).describe("Scopes of whoever has the key."),
          labels: z
            .record(z.string().min(1), z.string())
            .default({})
            .describe("What policies and records may want to know of the owner."),
          expires: z.iso
            .datetime({ offset: true, error: "is not a time such as 2027-01-31T00:00:00Z" })
            .optional()
            .describe("When the key ends; never unless given."),
        }),
      )
      .describe("The keys by the names of their owners."),
  });
  const certificate = z.strictObject({
    identity: z
      .enum(["subject", "uri", "dns", "email", "fingerprint"])
      .default("subject")
      .describe("What names the caller: the subject, the one alternative name of a kind, or the fingerprint."),
    scopes: z.array(scope).default([]).describe("Scopes of whoever shows a certificate."),
  });
  const kinds = {
    jwt: jwt.optional().describe("Tokens that carry a signature (RFC 9068)."),
    introspection: introspection.optional().describe("Tokens that the issuer is asked about (RFC 7662)."),
    apiKeys: apiKeys.optional().describe("Keys that this configuration lists."),
    certificate: certificate.optional().describe("Client certificates that `listen.tls.caFile` vouches for."),
  };
  return z.strictObject(kinds).refine(hasOne, { error: `needs exactly one of ${listed(Object.keys(kinds))}` });
}

const use = z.array(z.string().min(1)).min(1).optional();

/** The `auth` part of a route: who may call it, where that differs from the general part. */
export const routeAuthConfig = z.strictObject({
  use: use.describe("Authenticators of this route in the order they are asked, instead of those of `auth.use`."),
  scopes: z
    .array(demandedScope)
    .optional()
    .describe("Scopes that every caller of this route needs, instead of those of `auth.scopes`."),
  offeredScopes: z
    .array(demandedScope)
    .optional()
    .describe("More scopes that clients may ask for on this route, instead of those of `auth.offeredScopes`."),
});

/** The `auth` part of the configuration: who may call. */
export function createAuthConfig(parts: AuthConfigDeps) {
  const name = z
    .string()
    .regex(/^[\da-z][\d._a-z-]{0,99}$/u, {
      error: "is not a name: lower-case letters, digits, `.`, `_` and `-`",
    })
    .refine((text) => text !== anonymousName, {
      error: `is taken: \`${anonymousName}\` stands for callers without credentials`,
    });
  return z.strictObject({
    authenticators: z
      .record(name, authenticatorConfig(parts))
      .default({})
      .describe("Ways to find out who is calling, by names of your own."),
    use: use.describe(
      "Authenticators of all routes in the order they are asked, `anonymous` for callers without credentials; all of them unless given.",
    ),
    scopes: z.array(demandedScope).default([]).describe("Scopes that every caller needs, whatever it does."),
    offeredScopes: z
      .array(demandedScope)
      .default([])
      .describe("More scopes that clients may ask for; the metadata of every endpoint name them."),
    impliedScopes: z
      .record(scope, z.array(scope))
      .default({})
      .describe("Scopes that hold others: whoever has the first has those of the list too."),
  });
}

/** The `credentials` part of an upstream: what the gateway shows to it. */
export function createCredentialsConfig({ headerName }: Pick<AuthConfigDeps, "headerName">) {
  const tokenShape = {
    issuer: issuerUrl.optional().describe("Identifier of the authorization server; its token endpoint is found there."),
    tokenEndpoint: secureUrl.optional().describe("Where tokens are issued, for servers without metadata."),
    ...clientShape,
    scopes: z.array(scope).default([]).describe("Scopes to ask for."),
    resource: z.string().min(1).optional().describe("The resource that the token is for (RFC 8707)."),
    audience: z.string().min(1).optional().describe("The audience to ask for, where the server wants that instead."),
  };
  const token = z.strictObject(tokenShape).refine(hasEndpoint, { error: "needs `issuer` or `tokenEndpoint`" });
  const kinds = {
    header: z
      .strictObject({
        name: headerName.prefault("authorization").describe("Name of the header."),
        value: secret.describe("Its value; write `${env:…}` or `${file:…}`."),
      })
      .optional()
      .describe("A fixed header."),
    clientCredentials: token
      .optional()
      .describe("A token of the gateway's own, the same for all callers (RFC 6749 section 4.4)."),
    tokenExchange: token
      .optional()
      .describe("A token for each caller, for which the caller's own is exchanged (RFC 8693)."),
  };
  return z.strictObject(kinds).refine(hasOne, { error: `needs exactly one of ${listed(Object.keys(kinds))}` });
}

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
