import type { IncomingMessage } from "node:http";
import type { Socket } from "node:net";
import { TLSSocket } from "node:tls";

import { canonicalResource } from "../../auth/token-principal.ts";
import type { Authentication, AuthenticationFailure, Authenticator, Credentials } from "../../auth/authenticator.ts";
import {
  type ChallengeOptions,
  formatChallenge,
  insufficientScope,
  metadataUrlOf,
  protectedResourceMetadata,
} from "../../auth/resource-server.ts";
import { GatewayError } from "../../errors.ts";
import { anonymous, type Clock, type Principal, type SetTimer } from "../../core/exchange.ts";
import type { Challenge } from "../../core/pipeline.ts";
import { createHttpClient, type HttpClient } from "../../auth/http-client.ts";
import { createCompositeAuthenticator } from "../../auth/composite.ts";
import type { SubjectTokens } from "../../auth/upstream-credentials.ts";
import type { Config, RouteConfig } from "../../config/config.ts";
import type { Logger } from "../../telemetry/log.ts";
import { isLoopbackHost } from "./access.ts";
import { type OpenAuthenticator, openAuthenticators } from "./authenticators.ts";

/** Whoever sent a request, and the door it came in by. */
export interface HttpCaller {
  readonly principal: Principal;
  readonly authentication: RouteAuthentication;
}

/** A caller, or the error to answer with and the challenge that goes with it. */
export type AuthenticationOutcome =
  | { readonly ok: true; readonly principal: Principal }
  | { readonly ok: false; readonly error: GatewayError; readonly challenge: string | undefined };

/** Where the callers of one route come in. */
export interface RouteAuthentication {
  /** Finds out who sends a request: at once where that is known already. Never rejects. */
  authenticate(request: IncomingMessage): AuthenticationOutcome | Promise<AuthenticationOutcome>;
  /** The value of `WWW-Authenticate` for a request that was refused. */
  challenge(request: IncomingMessage, facts: Challenge): string;
  /** The metadata of the endpoint at a path (RFC 9728); undefined where tokens are not to be had by OAuth. */
  metadata(request: IncomingMessage, path: string): Readonly<Record<string, unknown>> | undefined;
  /** Issuers whose tokens are taken, the preferred one first. */
  readonly issuers: readonly string[];
  /** Lower-case names of headers that hold callers' credentials, which go no further than this. */
  readonly credentialHeaders: ReadonlySet<string>;
}

export interface RouteAuthenticationOptions {
  readonly route: string;
  /** Undefined where nobody is asked who they are. */
  readonly authenticator: Authenticator | undefined;
  readonly issuers: readonly string[];
  readonly credentialHeaders: ReadonlySet<string>;
  /** Scopes that every caller needs, and more that clients may ask for. */
  readonly scopes: readonly string[];
  readonly offeredScopes: readonly string[];
  /** Paths of the route's endpoints. */
  readonly endpoints: readonly string[];
  readonly publicUrl: string | undefined;
  /** Whether only this machine can connect; then its own names are the names of the endpoints. */
  readonly isLoopback: boolean;
  /** Told why somebody was not let in, for the log. */
  readonly onFailure: (failure: AuthenticationFailure) => void;
}

/** After how many seconds a caller that could not be checked may come back. */
const retryAfter = 5;
const loopbackNames = ["127.0.0.1", "localhost", "[::1]"];
const anonymousOutcome: AuthenticationOutcome = { ok: true, principal: anonymous };

/** Makes the door of a route. */
export function createRouteAuthentication(options: RouteAuthenticationOptions): RouteAuthentication {
  const { authenticator, issuers, credentialHeaders, scopes, endpoints, publicUrl } = options;
  const certificates = new WeakMap<Socket, Uint8Array>();
  const named = publicUrl === undefined ? undefined : endpoints.map((path) => canonicalResource(publicUrl + path));
  const byPort = new Map<number, readonly string[]>();

  /** Names are taken from where we listen, never from the Host header: a caller could say anything there. */
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

  /** The canonical URI of an endpoint as this client knows it; undefined where its Host header is none. */
  function resourceOf(request: IncomingMessage, path: string): string | undefined {
    if (publicUrl !== undefined) return canonicalResource(publicUrl + path);
    const { host = "" } = request.headers;
    const scheme = request.socket instanceof TLSSocket ? "https" : "http";
    return /^[\w.:[\]-]+$/u.test(host) ? canonicalResource(`${scheme}://${host}${path}`) : undefined;
  }

  function challenge(request: IncomingMessage, facts: ChallengeOptions): string {
    const resource = issuers.length === 0 ? undefined : resourceOf(request, endpointOf(request.url ?? ""));
    return formatChallenge({
      ...facts,
      metadataUrl: resource === undefined ? undefined : metadataUrlOf(resource),
    });
  }

  function judge(request: IncomingMessage, known: Authentication): AuthenticationOutcome {
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
    // RFC 6750 section 3.1: a malformed request is 400, and only what was sent can be wrong.
    const code = error === "invalid_request" ? "invalid_message" : "unauthenticated";
    const facts = error === "missing" ? {} : { error, description };
    const said = challenge(request, { ...facts, scopes });
    return { ok: false, error: new GatewayError(code, description), challenge: said };
  }

  const sources: CredentialSources = { certificateOf, audienceOf };
  return {
    issuers,
    credentialHeaders,
    challenge,
    authenticate: (request) => {
      if (authenticator === undefined) return anonymousOutcome;
      const answer = authenticator.authenticate(new RequestCredentials(request, sources));
      if (!(answer instanceof Promise)) return judge(request, answer);
      return answer.then(
        (known) => judge(request, known),
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

/** Where the parts of credentials come from that are not in headers. */
interface CredentialSources {
  certificateOf(request: IncomingMessage): Uint8Array | undefined;
  audienceOf(request: IncomingMessage): readonly string[] | undefined;
}

/** What a request shows. A class: to make an object with getters of its own for each request costs more than to use it. */
class RequestCredentials implements Credentials {
  readonly header: Credentials["header"];
  readonly #request: IncomingMessage;
  readonly #sources: CredentialSources;

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
}

/** The endpoint that a request belongs to: what is posted for an event stream is part of that stream's endpoint. */
function endpointOf(url: string): string {
  const [path = ""] = url.split("?");
  return path.replace(/\/messages$/u, "/sse");
}

export interface RouteAuthenticationDeps {
  readonly clock: Clock;
  readonly log: Logger;
  readonly ask: HttpClient;
  readonly subjectTokens: SubjectTokens;
}

/** The doors of all routes. */
export interface RouteAuthentications {
  /** Builds the doors of a configuration; they are put in place by the answer. */
  prepare(config: Config): () => void;
  /** The door of a route, also of one that is being left. */
  of(route: string): RouteAuthentication;
  /** The metadata of an issuer that some door takes tokens of, as it publishes them. */
  issuerDocument(issuer: string): Promise<Readonly<Record<string, unknown>> | undefined>;
  forget(route: string): void;
}

const askMs = 10_000;
const askBytes = 1024 * 1024;

/** Asks authorization servers over the network, within bounds. */
export function createIssuerClient(setTimer: SetTimer): HttpClient {
  return createHttpClient({ timeoutMs: askMs, maxBytes: askBytes, setTimer });
}

/** Makes the doors; the first configuration comes in like every later one. */
export function createRouteAuthentications(deps: RouteAuthenticationDeps): RouteAuthentications {
  let opened: readonly OpenAuthenticator[] = [];
  let doors = new Map<string, RouteAuthentication>();

  return {
    prepare: (config) => {
      const next = openAuthenticators(config, opened, deps);
      const made = Object.values(config.routes).map(
        (route) => [route.name, routeAuthenticationOf(route, config, next, deps)] as const,
      );
      return () => {
        opened = next;
        doors = new Map([...doors, ...made]);
      };
    },
    of: (route) => {
      const door = doors.get(route);
      if (door === undefined) throw new RangeError(`there is no route ${route}`);
      return door;
    },
    issuerDocument: async (url) => {
      const found = opened.find(({ issuer }) => issuer?.url === url)?.issuer;
      return (await found?.metadata())?.document;
    },
    forget: (route) => {
      doors.delete(route);
    },
  };
}

function routeAuthenticationOf(
  { name, auth, prefixes }: RouteConfig,
  { listen }: Config,
  opened: readonly OpenAuthenticator[],
  { log }: RouteAuthenticationDeps,
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
    isLoopback: listen.unixSocket === undefined && isLoopbackHost(listen.host),
    onFailure: ({ error, description, cause }) => {
      const level = error === "unavailable" ? "warn" : error === "missing" ? "debug" : "info";
      const reason = cause instanceof Error ? cause.message : undefined;
      log[level]({ route: name, error, description, reason }, "a caller was not let in");
    },
  });
}

/** Node's timers hold 31 bits. */
const longestMs = 2 ** 31 - 1;

/** Of two sets of credentials those that hold for longer. */
export function longerOf(one: Principal, other: Principal): Principal {
  const never = Number.POSITIVE_INFINITY;
  return (other.expiresAt ?? never) >= (one.expiresAt ?? never) ? other : one;
}

/**
 * Calls back when the credentials of a caller have expired. Who that is is asked again when the time comes: newer
 * credentials may have been shown meanwhile. The answer stops the waiting.
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
    else stop = setTimer(Math.min(leftMs, longestMs), wait);
  };
  wait();
  return () => {
    stop();
  };
}
