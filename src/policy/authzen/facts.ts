import type { Exchange, Principal } from "../../exchange.ts";
import { GatewayError } from "../../errors.ts";
import { toCelValue, type CelValue } from "../cel/json-value.ts";
import type { EntityFields } from "./mapping.ts";

/** Which claims say who acts, and what the server is called. */
export interface IdentityOptions {
  readonly subjectClaim: string;
  readonly agentClaim: string;
  readonly resourceId?: string | undefined;
}

type Claims = ReadonlyMap<string, CelValue>;

const claimsCache = new WeakMap<object, Claims>();

/**
 * The claims of the caller's token as CEL sees them. Callers without a token have what their credentials say, and the
 * gateway's name for them where a token would say who acts.
 */
export function tokenClaims({ kind, id, claims }: Principal, { subjectClaim }: IdentityOptions): Claims {
  let value = claimsCache.get(claims);
  if (value === undefined) {
    // The claims are an object, and that is a map in CEL.
    value = toCelValue(claims) as Claims;
    claimsCache.set(claims, value);
  }
  return kind === "token" ? value : new Map([...value, [subjectClaim, id]]);
}

/**
 * On whose behalf a message comes (COAZ-MCP binding, "The Subject-Identity Claim"). Callers without a token have their
 * own type and the gateway's name for them, so that nobody's claim can be mistaken for one of them.
 */
export function subjectOf({ kind, id, claims, scopes }: Principal, settings: IdentityOptions): EntityFields {
  const properties = new Map<string, unknown>();
  if (typeof claims["iss"] === "string") properties.set("issuer", claims["iss"]);
  if (scopes.size > 0) properties.set("scopes", [...scopes]);
  const own = subjectIdOf({ kind, id, claims }, settings);
  const subject = new Map<string, unknown>([
    ["type", kind === "token" ? "identity" : kind],
    ["id", own],
  ]);
  if (properties.size > 0) subject.set("properties", properties);
  return subject;
}

/** The identifier of the subject, from the claim that was agreed on; throws where a token has none. */
export function subjectIdOf(
  { kind, id, claims }: Pick<Principal, "kind" | "id" | "claims">,
  { subjectClaim }: IdentityOptions,
): string {
  if (kind !== "token") return id;
  const value = claims[subjectClaim];
  if (typeof value === "string" && value !== "") return value;
  throw new GatewayError("invalid_params", `the token has no claim \`${subjectClaim}\` that says who acts`);
}

/** What is said of the circumstances in every question. */
export function contextOf({ claims }: Principal, { agentClaim }: IdentityOptions): Map<string, unknown> {
  const agent = claims[agentClaim];
  return new Map<string, unknown>(typeof agent === "string" ? [["agent", agent]] : []);
}

/**
 * The name of the server as a resource: the configured one, or the only audience of the token (COAZ-MCP binding,
 * "Default Mappings"); for callers without a token that of the route.
 */
export function serverIdOf({ principal, route }: Exchange, { resourceId }: IdentityOptions): string {
  if (resourceId !== undefined) return resourceId;
  if (principal.kind !== "token") return route;
  const { aud } = principal.claims;
  const audiences: readonly unknown[] = Array.isArray(aud) ? aud : [aud];
  const [only, ...others] = audiences;
  if (typeof only === "string" && only !== "" && others.length === 0) return only;
  throw new GatewayError(
    "invalid_params",
    "the token does not have exactly one audience that could name the server",
  );
}
