import {
  authenticationFailure,
  type Authenticator,
  malformedCredentials,
  missingCredentials,
  readBearer,
} from "../../auth/authenticator.ts";
import { readScopes } from "../../auth/scopes.ts";
import { GatewayError } from "../../errors.ts";
import { type Clock, type Principal, systemClock } from "../../core/exchange.ts";

/** Where the issuer gives out tokens. */
export const testTokenPath = "/.testoauth/token";

/** What a test issuer knows. */
export interface TestIssuerOptions {
  /** Whether this is production or a container: then there is no test issuer. */
  readonly deployed: boolean;
  readonly clientId?: string;
  readonly clientSecret?: string;
  /** How long a token lives; an hour unless said otherwise. */
  readonly lifetimeMs?: number;
  readonly newToken?: () => string;
  readonly clock?: Clock;
}

/** Gives out tokens and knows them again. */
export interface TestIssuer {
  readonly authenticator: Authenticator;
  /** Answers the token request; undefined for any other path. */
  handle(request: Request): Promise<Response | undefined>;
}

/** More tokens than any sample needs; the oldest go first. */
const maxTokens = 1000;

/**
 * Makes a token issuer for samples and tests: the client credentials grant (RFC 6749, section 4.4) with one known client
 * that gets whatever scopes it asks for. It refuses to exist where real people could reach it (KO-144).
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
      "server kit: the test issuer gives a token to everybody who knows a published secret, so it does not start " +
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
