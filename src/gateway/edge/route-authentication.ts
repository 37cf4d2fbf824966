import type { IncomingMessage } from "node:http";
import type { Socket } from "node:net";
import { TLSSocket } from "node:tls";

import {
  type Authentication,
  type AuthenticationFailure,
  type Authenticator,
  createCompositeAuthenticator,
  type Credentials,
} from "../../auth/authenticator.ts";
import { createHttpClient, type HttpClient } from "../../auth/http-client.ts";
import {
  type ChallengeOptions,
  formatChallenge,
  insufficientScope,
  metadataUrlOf,
  protectedResourceMetadata,
} from "../../auth/resource-server.ts";
import { canonicalResource } from "../../auth/token-principal.ts";
import type { Config, RouteConfig } from "../../config/config.ts";
import { anonymous, type Clock, type Principal, type SetTimer } from "../../core/exchange.ts";
import type { OpenWorkEntry } from "../../core/open-work.ts";
import type { Challenge } from "../../core/pipeline.ts";
import { GatewayError } from "../../errors.ts";
import { isLoopback, parseUrl } from "../../lib/addresses.ts";
import { isPromise } from "../../lib/is-promise.ts";
import { type AuthenticatorDeps, type OpenAuthenticator, openAuthenticators } from "./authenticators.ts";
import type { ForwardedCaller } from "./peer-requests.ts";
import type { AuthenticationWaits } from "./waiting.ts";

/** The sender of an HTTP request. */
export interface HttpCaller {
  readonly principal: Principal;
  readonly authentication: RouteAuthentication;
  /** The client's IP address; undefined on a Unix socket. */
  readonly address: string | undefined;
  /** The HTTP request among the open work; absent for streams, which a shutdown does not wait for. */
  readonly work: OpenWorkEntry | undefined;
  /** Whether the request arrived after the shutdown began. */
  readonly isLate: boolean;
  /** Present if another gateway forwarded the request; it is not forwarded again. */
  readonly forwarded?: ForwardedCaller;
}

/** The caller, or the error to answer with and its challenge. */
export type AuthenticationOutcome =
  | { readonly ok: true; readonly principal: Principal }
  | { readonly ok: false; readonly error: GatewayError; readonly challenge: string | undefined };

/** Authenticates the callers of one route. */
export interface RouteAuthentication {
  /** Authenticates a request, synchronously where the credentials are already known. Never rejects. */
  authenticate(request: IncomingMessage): AuthenticationOutcome | Promise<AuthenticationOutcome>;
  /** The value of `WWW-Authenticate` for a request that was refused. */
  challenge(request: IncomingMessage, facts: Challenge): string;
  /** The protected resource metadata of the endpoint at a path (RFC 9728); undefined without OAuth. */
  metadata(request: IncomingMessage, path: string): Readonly<Record<string, unknown>> | undefined;
  /** Accepted token issuers, the preferred one first. */
  readonly issuers: readonly string[];
  /** Lower-case names of headers with credentials, which are never forwarded. */
  readonly credentialHeaders: ReadonlySet<string>;
}

export interface RouteAuthenticationOptions {
  readonly route: string;
  /** Undefined where callers stay anonymous. */
  readonly authenticator: Authenticator | undefined;
  readonly issuers: readonly string[];
  readonly credentialHeaders: ReadonlySet<string>;
  /** Scopes that every caller needs; `offeredScopes` are listed in the metadata besides. */
  readonly scopes: readonly string[];
  readonly offeredScopes: readonly string[];
  /** Paths of the route's endpoints. */
  readonly endpoints: readonly string[];
  readonly publicUrl: string | undefined;
  /** Whether only this machine can connect; then the loopback names are valid audiences. */
  readonly isLoopback: boolean;
  /** Bounds the requests whose credentials take time to verify. */
  readonly waits: AuthenticationWaits;
  /** Called with each failed authentication, for the log. */
  readonly onFailure: (failure: AuthenticationFailure) => void;
}

/** Seconds to wait when credentials could not be verified. */
const retryAfter = 5;
const loopbackNames = ["127.0.0.1", "localhost", "[::1]"];
const anonymousOutcome: AuthenticationOutcome = { ok: true, principal: anonymous };

/** Creates the authentication of a route. */
export function createRouteAuthentication(options: RouteAuthenticationOptions): RouteAuthentication {
  const { authenticator, issuers, credentialHeaders, scopes, endpoints, publicUrl } = options;
  const certificates = new WeakMap<Socket, Uint8Array>();
  const named = publicUrl === undefined ? undefined : endpoints.map((path) => canonicalResource(publicUrl + path));
  const byPort = new Map<number, readonly string[]>();

  /** Audiences come from the listening address, never from the Host header, which the caller chooses. */
  function audienceOf({ socket }: IncomingMessage): readonly string[] | undefined {
    if (named !== undefined || !options.isLoopback || socket.localPort === undefined) return named;
    const { localPort: port } = socket;
    let names = byPort.get(port);
    if (names === undefined) {
      const scheme = socket instanceof TLSSocket ? "https" : "http";
      names = loopbackNames.flatMap((host) =>
        endpoints.map((path) => canonicalResource(`${scheme}://${host}:${port}${path}`)),
      );
      byPort.set(port, names);
    }
    return names;
  }

  function certificateOf({ socket }: IncomingMessage): Uint8Array | undefined {
    if (!(socket instanceof TLSSocket) || !socket.authorized) return undefined;
    let known = certificates.get(socket);
    if (known === undefined) {
      const certificate = socket.getPeerX509Certificate();
      if (certificate === undefined) return undefined;
      known = certificate.raw;
      certificates.set(socket, known);
    }
    return known;
  }

  /**
   * The canonical URI of an endpoint. Without `publicUrl` it is known on loopback only: beyond, the Host header is the
   * caller's choice, and a cache would give what one caller chose to others.
   */
  function resourceOf(request: IncomingMessage, path: string): string | undefined {
    if (publicUrl !== undefined) return canonicalResource(publicUrl + path);
    if (!options.isLoopback) return undefined;
    const { host = "" } = request.headers;
    const scheme = request.socket instanceof TLSSocket ? "https" : "http";
    const name = /^[\w.:[\]-]+$/u.test(host) ? parseUrl(`${scheme}://${host}`)?.hostname : undefined;
    return name !== undefined && isLoopback(name) ? canonicalResource(`${scheme}://${host}${path}`) : undefined;
  }

  function challenge(request: IncomingMessage, facts: ChallengeOptions): string {
    const resource = issuers.length === 0 ? undefined : resourceOf(request, endpointOf(request.url ?? ""));
    return formatChallenge({
      ...facts,
      metadataUrl: resource === undefined ? undefined : metadataUrlOf(resource),
    });
  }

  function checkScopes(request: IncomingMessage, known: Authentication): AuthenticationOutcome {
    if (!known.ok) return refuse(request, known.failure);
    for (const scope of scopes) {
      if (known.principal.scopes.has(scope)) continue;
      const error = insufficientScope(scopes);
      const facts = { error: "insufficient_scope", scopes, description: error.message } as const;
      return { ok: false, error, challenge: challenge(request, facts) };
    }
    return known;
  }

  function refuse(request: IncomingMessage, failure: AuthenticationFailure): AuthenticationOutcome {
    options.onFailure(failure);
    const { error, description, cause } = failure;
    if (error === "unavailable") {
      const unavailable = new GatewayError("policy_unavailable", description, {
        details: { retryAfter },
        cause,
      });
      return { ok: false, error: unavailable, challenge: undefined };
    }
    // RFC 6750, section 3.1: a malformed request is answered with 400; missing credentials get no error code.
    const code = error === "invalid_request" ? "invalid_message" : "unauthenticated";
    const facts = error === "missing" ? {} : { error, description };
    const said = challenge(request, { ...facts, scopes });
    return { ok: false, error: new GatewayError(code, description), challenge: said };
  }

  const sources: CredentialSources = { certificateOf, audienceOf, waits: options.waits };
  return {
    issuers,
    credentialHeaders,
    challenge,
    authenticate: (request) => {
      if (authenticator === undefined) return anonymousOutcome;
      const credentials = new RequestCredentials(request, sources);
      const answer = authenticator.authenticate(credentials);
      if (!isPromise(answer)) return checkScopes(request, answer);
      return answer
        .finally(() => {
          credentials.endWait();
        })
        .then(
          (known) => checkScopes(request, known),
          (error: unknown) => ({ ok: false, error: GatewayError.from(error), challenge: undefined }),
        );
    },
    metadata: (request, path) => {
      const resource = issuers.length === 0 ? undefined : resourceOf(request, path);
      if (resource === undefined) return undefined;
      return protectedResourceMetadata({
        resource,
        authorizationServers: issuers,
        scopes: [...new Set([...scopes, ...options.offeredScopes])],
        name: options.route,
      });
    },
  };
}

/** Sources of credentials outside the headers. */
interface CredentialSources {
  certificateOf(request: IncomingMessage): Uint8Array | undefined;
  audienceOf(request: IncomingMessage): readonly string[] | undefined;
  readonly waits: AuthenticationWaits;
}

/** The credentials of a request. A class, because an object literal with getters costs more to create than to use. */
class RequestCredentials implements Credentials {
  readonly header: Credentials["header"];
  readonly #request: IncomingMessage;
  readonly #sources: CredentialSources;
  #endWait: (() => void) | undefined;

  constructor(request: IncomingMessage, sources: CredentialSources) {
    const { headers } = request;
    this.header = (name) => {
      const value = headers[name];
      return typeof value === "string" ? value : value?.join(", ");
    };
    this.#request = request;
    this.#sources = sources;
  }

  get certificate(): Uint8Array | undefined {
    return this.#sources.certificateOf(this.#request);
  }

  get audience(): readonly string[] | undefined {
    return this.#sources.audienceOf(this.#request);
  }

  /** Counts the request once, however many authenticators have to wait. */
  mayWait(): GatewayError | undefined {
    if (this.#endWait !== undefined) return undefined;
    const begun = this.#sources.waits.begin(this.#request);
    if (begun instanceof GatewayError) return begun;
    this.#endWait = begun;
    return undefined;
  }

  endWait(): void {
    this.#endWait?.();
  }
}

/** The endpoint of a request: `/messages` belongs to the endpoint `/sse`. */
function endpointOf(url: string): string {
  const [path = ""] = url.split("?");
  return path.replace(/\/messages$/u, "/sse");
}

/** The authentication of all routes. */
export interface RouteAuthentications {
  /** Builds the authentication for a configuration. The returned function puts it in place. */
  prepare(config: Config): () => void;
  /** The authentication of a route, draining ones included. */
  of(route: string): RouteAuthentication;
  /** The metadata that a configured issuer publishes. */
  issuerDocument(issuer: string, request: IncomingMessage): Promise<Readonly<Record<string, unknown>> | undefined>;
  forget(route: string): void;
}

const askMs = 10_000;
const askBytes = 1024 * 1024;

/** Creates the HTTP client for authorization servers. */
export function createIssuerClient(setTimer: SetTimer): HttpClient {
  return createHttpClient({ timeoutMs: askMs, maxBytes: askBytes, setTimer });
}

/** What the authentication of all routes needs. */
export interface RouteAuthenticationsDeps extends AuthenticatorDeps {
  readonly waits: AuthenticationWaits;
}

/** Creates an empty set; the first configuration is applied like every later one. */
export function createRouteAuthentications(deps: RouteAuthenticationsDeps): RouteAuthentications {
  let opened: readonly OpenAuthenticator[] = [];
  let byRoute = new Map<string, RouteAuthentication>();

  return {
    prepare: (config) => {
      const next = openAuthenticators(config, opened, deps);
      const made = Object.values(config.routes).map(
        (route) => [route.name, routeAuthenticationOf(route, config, next, deps)] as const,
      );
      return () => {
        opened = next;
        byRoute = new Map([...byRoute, ...made]);
      };
    },
    of: (route) => {
      const found = byRoute.get(route);
      if (found === undefined) throw new RangeError(`unknown route ${route}`);
      return found;
    },
    issuerDocument: async (url, request) => {
      const found = opened.find(({ issuer }) => issuer?.url === url)?.issuer;
      if (found === undefined) return undefined;
      // Anybody may ask, and the issuer may be slow.
      const endWait = deps.waits.begin(request);
      if (endWait instanceof GatewayError) throw endWait;
      return found
        .metadata()
        .then(({ document }) => document)
        .finally(endWait);
    },
    forget: (route) => {
      byRoute.delete(route);
    },
  };
}

function routeAuthenticationOf(
  { name, auth, prefixes }: RouteConfig,
  { listen }: Config,
  opened: readonly OpenAuthenticator[],
  { log, waits }: RouteAuthenticationsDeps,
): RouteAuthentication {
  const used = auth.use.flatMap((wanted) => opened.filter((each) => each.name === wanted));
  return createRouteAuthentication({
    route: name,
    authenticator:
      used.length === 0
        ? undefined
        : createCompositeAuthenticator(
            used.map(({ authenticator }) => authenticator),
            { allowsAnonymous: auth.allowsAnonymous },
          ),
    issuers: [...new Set(used.flatMap(({ issuer }) => issuer?.url ?? []))],
    credentialHeaders: new Set(
      used.length === 0 ? [] : ["authorization", ...used.flatMap(({ header }) => header ?? [])],
    ),
    scopes: auth.scopes,
    offeredScopes: auth.offeredScopes,
    endpoints: prefixes.flatMap((prefix) => [`${prefix}/mcp`, `${prefix}/sse`]),
    publicUrl: listen.publicUrl?.replace(/\/$/u, ""),
    isLoopback: listen.unixSocket === undefined && isLoopback(listen.host),
    waits,
    onFailure: ({ error, description, cause }) => {
      const level = error === "unavailable" ? "warn" : error === "missing" ? "debug" : "info";
      const reason = cause instanceof Error ? cause.message : undefined;
      log[level]({ route: name, error, description, reason }, "authentication failed");
    },
  });
}

/** The one of two principals whose credentials expire later. */
export function longerOf(one: Principal, other: Principal): Principal {
  const never = Number.POSITIVE_INFINITY;
  return (other.expiresAt ?? never) >= (one.expiresAt ?? never) ? other : one;
}

/** How soon it is noticed that the clock was set ahead, or that the machine slept. */
const recheckMs = 60_000;

/**
 * Calls back when the caller's credentials have expired. `principalOf` is read again at that time, because newer
 * credentials may have been presented. The returned function stops the timer.
 */
export function onExpiry(
  principalOf: () => Principal,
  { clock, setTimer }: { readonly clock: Clock; readonly setTimer: SetTimer },
  callback: () => void,
): () => void {
  let stop = (): void => {};
  const wait = (): void => {
    const { expiresAt } = principalOf();
    if (expiresAt === undefined) return;
    const leftMs = expiresAt - clock.wall();
    if (leftMs <= 0) callback();
    else stop = setTimer(Math.min(leftMs, recheckMs), wait);
  };
  wait();
  return () => {
    stop();
  };
}
