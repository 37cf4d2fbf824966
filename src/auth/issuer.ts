import { GatewayError } from "../errors.ts";
import { isLoopback } from "../lib/addresses.ts";
import type { Clock } from "../lib/clock.ts";
import { asObject } from "../lib/is-object.ts";
import type { HttpClient } from "./http-client.ts";

/** Metadata of an authorization server (RFC 8414). */
export interface IssuerMetadata {
  readonly jwksUri: string | undefined;
  readonly tokenEndpoint: string | undefined;
  readonly introspectionEndpoint: string | undefined;
  /** The whole document. */
  readonly document: Readonly<Record<string, unknown>>;
}

/** An authorization server. */
export type Issuer = ReturnType<typeof createIssuer>;

const freshMs = 60 * 60_000;
/** Callers without credentials cause requests too, and must not cause one each while the issuer fails. */
const cooldownMs = 5000;

/** Creates an issuer whose metadata is found by discovery. */
export function createIssuer(url: string, ask: HttpClient, clock: Pick<Clock, "now">) {
  let known: { readonly metadata: IssuerMetadata; readonly at: number } | undefined;
  let asking: Promise<IssuerMetadata> | undefined;
  let failed: { readonly error: unknown; readonly at: number } | undefined;
  return {
    url,
    /** Its metadata, cached for an hour. Rejects with a GatewayError if it is not available; for a moment without asking again. */
    metadata: (): Promise<IssuerMetadata> => {
      if (known !== undefined && clock.now() - known.at < freshMs) return Promise.resolve(known.metadata);
      if (failed !== undefined && clock.now() - failed.at < cooldownMs) return Promise.reject(failed.error);
      asking ??= discover(url, ask)
        .then((metadata) => {
          known = { metadata, at: clock.now() };
          failed = undefined;
          return metadata;
        })
        .catch((error: unknown) => {
          failed = { error, at: clock.now() };
          throw error;
        })
        .finally(() => {
          asking = undefined;
        });
      return asking;
    },
  };
}

/** The metadata URLs to try, in the order of MCP 2025-11-25 and later. */
export function metadataLocations(issuer: string): readonly string[] {
  const { origin, pathname } = new URL(issuer);
  const path = pathname.replace(/\/$/u, "");
  const inserted = [
    `${origin}/.well-known/oauth-authorization-server${path}`,
    `${origin}/.well-known/openid-configuration${path}`,
  ];
  return path === "" ? inserted : [...inserted, `${origin}${path}/.well-known/openid-configuration`];
}

async function discover(issuer: string, ask: HttpClient): Promise<IssuerMetadata> {
  let last: unknown;
  for (const url of metadataLocations(issuer)) {
    try {
      const { status, json } = await ask({ url });
      const document = status === 200 ? asObject(json) : undefined;
      if (document === undefined) {
        last = `${url} answered ${status} without metadata`;
        continue;
      }
      // RFC 8414 section 3.3: metadata of another issuer must not be used.
      if (document["issuer"] !== issuer) {
        throw new GatewayError("upstream_invalid", `the metadata at ${url} belongs to another issuer`);
      }
      return {
        jwksUri: issuerEndpoint(document, "jwks_uri", issuer),
        tokenEndpoint: issuerEndpoint(document, "token_endpoint", issuer),
        introspectionEndpoint: issuerEndpoint(document, "introspection_endpoint", issuer),
        document,
      };
    } catch (error) {
      if (error instanceof GatewayError && error.code === "upstream_invalid") throw error;
      last = error;
    }
  }
  throw new GatewayError("upstream_unreachable", `the metadata of ${issuer} is not available`, { cause: last });
}

/**
 * An endpoint in the metadata of an issuer; undefined where secrets would be sent to it unencrypted, or where an issuer elsewhere
 * names something on this machine, which only the gateway may reach.
 */
export function issuerEndpoint(
  document: Readonly<Record<string, unknown>>,
  name: string,
  issuer: string,
): string | undefined {
  const value = document[name];
  if (typeof value !== "string" || !isSafeUrl(value)) return undefined;
  return isHere(new URL(value)) && !isHere(new URL(issuer)) ? undefined : value;
}

/** Whether secrets may be sent there: https, or this machine. */
export function isSafeUrl(text: string): boolean {
  const url = URL.parse(text);
  if (url === null) return false;
  // A subdomain of `localhost` may be resolved by a server elsewhere.
  const isLocal = isLoopback(url.hostname) && !url.hostname.endsWith(".localhost");
  return url.protocol === "https:" || (url.protocol === "http:" && isLocal);
}

/** Connections to the unspecified address arrive at this machine, too. */
function isHere({ hostname }: URL): boolean {
  return isLoopback(hostname) || hostname === "0.0.0.0" || hostname === "[::]";
}
