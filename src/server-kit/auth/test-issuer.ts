import {
  authenticationFailure,
  type Authenticator,
  malformedCredentials,
  missingCredentials,
  readBearer,
} from "../../auth/authenticator.ts";
import { readScopes } from "../../auth/token-principal.ts";
import { GatewayError } from "../../errors.ts";
import { type Clock, type Principal, systemClock } from "../../core/exchange.ts";

/** The path of the token endpoint. */
export const testTokenPath = "/.testoauth/token";

/** The options of `createTestIssuer`. */
export interface TestIssuerOptions {
  /** Whether this is production or a container, where the issuer refuses to start. */
  readonly deployed: boolean;
  readonly clientId?: string;
  readonly clientSecret?: string;
  /** Default: an hour. */
  readonly lifetimeMs?: number;
  readonly newToken?: () => string;
  readonly clock?: Clock;
}

/** Issues tokens and verifies them. */
export interface TestIssuer {
  readonly authenticator: Authenticator;
  /** Answers token requests; undefined for any other path. */
  handle(request: Request): Promise<Response | undefined>;
}

/** How many tokens are kept; the oldest are dropped. */
const maxTokens = 1000;

/**
 * Creates a token issuer for samples and tests: the client credentials grant (RFC 6749, section 4.4) for one client,
 * with any scope. Throws in production and in containers (KO-144).
 *
 * @example
 * const issuer = createTestIssuer({ deployed: false });
 * const kit = await createServerKit({ name: "notes", auth: { authenticator: issuer.authenticator } });
 */
export function createTestIssuer(options: TestIssuerOptions): TestIssuer {
  const {
    clientId = "mcp-client",
    clientSecret = "dev-secret",
    lifetimeMs = 3_600_000,
    newToken = () => Buffer.from(crypto.getRandomValues(new Uint8Array(32))).toString("base64url"),
    clock = systemClock,
  } = options;
  if (options.deployed) {
    throw new GatewayError(
      "config_invalid",
      "server kit: the test issuer uses a published secret, so it does not start " +
        "when deployed. Use your own authorization server, or set environment to development.",
    );
  }
  const tokens = new Map<string, Principal>();

  function issue(scope: string): Response {
    const token = newToken();
    const scopes = new Set(readScopes(scope));
    const expiresAt = clock.wall() + lifetimeMs;
    tokens.set(token, {
      id: `test:${clientId}`,
      kind: "token",
      scopes,
      claims: { client_id: clientId, scope: [...scopes].join(" ") },
      expiresAt,
    });
    const [oldest] = tokens.keys();
    if (tokens.size > maxTokens && oldest !== undefined) tokens.delete(oldest);
    const body = {
      access_token: token,
      token_type: "Bearer",
      expires_in: Math.floor(lifetimeMs / 1000),
      scope: [...scopes].join(" "),
    };
    return Response.json(body, { headers: { "cache-control": "no-store" } });
  }

  return {
    handle: async (request) => {
      if (new URL(request.url).pathname !== testTokenPath) return undefined;
      if (request.method !== "POST") return new Response(null, { status: 405, headers: { allow: "POST" } });
      const form = new URLSearchParams(await request.text());
      if (form.get("grant_type") !== "client_credentials") return oauthError(400, "unsupported_grant_type");
      if (form.get("client_id") !== clientId || form.get("client_secret") !== clientSecret) {
        return oauthError(401, "invalid_client");
      }
      return issue(form.get("scope") ?? "");
    },
    authenticator: {
      authenticate: (credentials) => {
        const reading = readBearer(credentials);
        if (reading.kind !== "token") return reading.kind === "none" ? missingCredentials : malformedCredentials;
        const principal = tokens.get(reading.token);
        const isAlive = principal?.expiresAt !== undefined && principal.expiresAt > clock.wall();
        return principal !== undefined && isAlive
          ? { ok: true, principal }
          : authenticationFailure("invalid_token", "the token is unknown or has expired");
      },
    },
  };
}

function oauthError(status: number, error: string): Response {
  return Response.json({ error }, { status, headers: { "cache-control": "no-store" } });
}
