import { createHttpClient } from "../auth/http.ts";
import type { HttpClient } from "../auth/http.ts";
import { createCompositeAuthenticator } from "../auth/several.ts";
import type { SubjectTokens } from "../auth/subject-tokens.ts";
import type { Config, RouteConfig } from "../config/config.ts";
import type { Clock, SetTimer } from "../exchange.ts";
import type { Logger } from "../telemetry/log.ts";
import { isLoopbackHost } from "./access.ts";
import { openAuthenticators } from "./authenticators.ts";
import type { OpenAuthenticator } from "./authenticators.ts";
import { createRouteAuthentication } from "./door.ts";
import type { RouteAuthentication } from "./door.ts";

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
