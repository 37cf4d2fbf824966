import { GatewayError } from "../errors.ts";

/** The parameters of a challenge (RFC 6750 section 3, RFC 9728 section 5.1). */
export interface ChallengeOptions {
  /** Omitted if no credentials were sent. */
  readonly error?: "invalid_token" | "invalid_request" | "insufficient_scope" | undefined;
  readonly description?: string | undefined;
  /** All scopes that the operation needs; the client adds those it has (MCP 2026-07-28). */
  readonly scopes?: readonly string[] | undefined;
  /** URL of the resource metadata; omitted if there is no OAuth issuer. */
  readonly metadataUrl?: string | undefined;
}

/** Formats the value of a `WWW-Authenticate` header. */
export function formatChallenge(facts: ChallengeOptions): string {
  const { error, description, scopes = [], metadataUrl } = facts;
  const parameters = [
    parameter("error", error),
    parameter("error_description", error === undefined ? undefined : description),
    parameter("scope", scopes.length === 0 ? undefined : scopes.join(" ")),
    parameter("resource_metadata", metadataUrl),
  ].filter((text) => text !== undefined);
  return parameters.length === 0 ? "Bearer" : `Bearer ${parameters.join(", ")}`;
}

/** The error for missing scopes that the caller could obtain: a 403 with a step-up challenge. */
export function insufficientScope(
  scopes: readonly string[],
  description = "the token lacks a required scope",
): GatewayError {
  return new GatewayError("insufficient_scope", description, { details: { scopes } });
}

export interface ProtectedResource {
  /** Its canonical URI. */
  readonly resource: string;
  readonly authorizationServers: readonly string[];
  readonly scopes: readonly string[];
  readonly name?: string | undefined;
}

/** The metadata document of a protected resource (RFC 9728 section 2). */
export function protectedResourceMetadata(facts: ProtectedResource): Readonly<Record<string, unknown>> {
  const { resource, authorizationServers, scopes, name } = facts;
  return {
    resource,
    authorization_servers: authorizationServers,
    ...(scopes.length === 0 ? {} : { scopes_supported: scopes }),
    bearer_methods_supported: ["header"],
    ...(name === undefined ? {} : { resource_name: name }),
  };
}

/** Path prefix of resource metadata; the path of the resource follows (RFC 9728 section 3.1). */
export const metadataPrefix = "/.well-known/oauth-protected-resource";

export function metadataUrlOf(resource: string): string {
  const { origin, pathname } = new URL(resource);
  return `${origin}${metadataPrefix}${pathname === "/" ? "" : pathname}`;
}

/** Replaces characters that RFC 6750 section 3 does not allow in a value. */
function parameter(name: string, value: string | undefined): string | undefined {
  return value === undefined ? undefined : `${name}="${value.replaceAll(/[^\x20\x21\x23-\x5B\x5D-\x7E]/gu, "'")}"`;
}
