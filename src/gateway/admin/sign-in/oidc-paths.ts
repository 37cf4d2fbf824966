import type { IncomingMessage, RequestListener, ServerResponse } from "node:http";
import * as z from "zod";

import type { HttpClient } from "../../../auth/http-client.ts";
import { createIssuer } from "../../../auth/issuer.ts";
import { createKeySet } from "../../../auth/key-set.ts";
import { createOidcLogin, type LoginFlow } from "../../../auth/oidc-login.ts";
import { createClientAuthentication } from "../../../auth/token-source.ts";
import { GatewayError } from "../../../errors.ts";
import type { Clock } from "../../../lib/clock.ts";
import { createTtlCache } from "../../../lib/ttl-cache.ts";
import { errorFields, type Logger } from "../../../telemetry/log.ts";
import type { NoteAction } from "../deps.ts";
import type { SignInFailure } from "../wire.ts";
import type { CookieKind } from "./cookies.ts";
import { callerOfClaims, roleValues, type SignInConfig } from "./roles.ts";
import { pageProblem } from "./same-origin.ts";
import type { SignIn } from "./sign-in.ts";

/** Where a browser begins to sign in, and where the issuer sends it back; both below `/console/`. */
const oidcPaths = { begin: "sign-in", callback: "callback" } as const;

/** What signing in by OpenID Connect needs from the gateway. */
export interface OidcPathsDeps {
  readonly signIn: SignIn;
  readonly ask: HttpClient;
  readonly clock: Clock;
  readonly log: Logger;
  readonly note: NoteAction;
  /** The URL of the console as browsers see it, by a request to it. */
  readonly consoleUrl: (request: IncomingMessage) => string;
}

const flowMs = 600_000;
/** Logins that were answered are remembered, so that none is answered twice. */
const maxAnswered = 10_000;
/** Anybody may come back from a login, and each one costs a request to the issuer with the gateway's own secret. */
const maxFinishing = 20;

const flowCookie: CookieKind<LoginFlow & { readonly until: number }> = {
  purpose: "login",
  // The issuer sends the browser back here, and a strict cookie would not come along.
  sameSite: "Lax",
  content: z.strictObject({ state: z.string(), nonce: z.string(), verifier: z.string(), until: z.number() }),
};

/** Serves both paths of the OpenID Connect code flow; undefined for every other path. */
export function createOidcPaths(
  config: SignInConfig,
  deps: OidcPathsDeps,
): (path: string) => RequestListener | undefined {
  const { signIn, ask, clock, log, note, consoleUrl } = deps;
  const { clientId, clientSecret, clientAuthentication } = config;
  const issuer = createIssuer(config.issuer, ask, clock);
  const login = createOidcLogin({
    issuer,
    keys: createKeySet({
      locate: async () => {
        const { jwksUri } = await issuer.metadata();
        if (jwksUri === undefined)
          throw new GatewayError("upstream_invalid", `the metadata of ${issuer.url} names no keys`);
        return jwksUri;
      },
      ask,
      clock,
    }),
    clientId,
    client: createClientAuthentication({ clientId, clientSecret, method: clientAuthentication }),
    scopes: config.scopes,
    isEnough: (claims) => roleValues(claims, config.roleClaim).length > 0,
    ask,
    clock,
  });
  const answered = createTtlCache<true>(maxAnswered, clock.wall);
  let finishing = 0;
  const redirectUri = (request: IncomingMessage): string => `${consoleUrl(request)}${oidcPaths.callback}`;

  async function begin(request: IncomingMessage, response: ServerResponse): Promise<void> {
    const problem = pageProblem(request, [new URL(consoleUrl(request)).origin]);
    if (problem !== undefined) throw new GatewayError("forbidden", problem);
    const { url, flow } = await login.begin(redirectUri(request));
    const place = { headers: request.headers, isSecure: isSecure(request) };
    redirect(response, url, [signIn.cookies.set(flowCookie, { ...flow, until: clock.wall() + flowMs }, place, flowMs)]);
  }

  async function finish(request: IncomingMessage, response: ServerResponse): Promise<void> {
    const { headers } = request;
    const { searchParams } = new URL(request.url ?? "/", "http://gateway");
    const flow = signIn.cookies.get(flowCookie, headers);
    if (flow === undefined || flow.until <= clock.wall())
      throw new GatewayError("unauthenticated", "no sign-in was started in this browser, or it has expired");
    if (answered.get(flow.state) === true)
      throw new GatewayError("unauthenticated", "this sign-in was answered before; start again");
    if (finishing >= maxFinishing) throw new GatewayError("overloaded", "too many people sign in at once; try again");
    // Before anything is awaited. An answer to another login does not use this one up.
    if (searchParams.get("state") === flow.state) answered.set(flow.state, true, flowMs);
    finishing++;
    const claims = await login.finish(searchParams, flow, redirectUri(request)).finally(() => {
      finishing--;
    });
    const caller = callerOfClaims(claims, config);
    const cleared = signIn.cookies.clear(flowCookie, headers);
    if (caller === undefined) {
      log.warn({ subject: String(claims["sub"]), issuer: config.issuer }, "sign-in refused: no role");
      goBack(request, response, "no-role", [cleared]);
      return;
    }
    note(caller, "signed in to the console");
    const place = { headers, isSecure: isSecure(request) };
    redirect(response, consoleUrl(request), [cleared, signIn.start(caller, place, config.lifetime)]);
  }

  /** Redirects to the console, which says what happened. */
  function goBack(
    request: IncomingMessage,
    response: ServerResponse,
    failure: SignInFailure,
    cookies: readonly string[] = [],
  ): void {
    redirect(response, `${consoleUrl(request)}#/failed/${failure}`, cookies);
  }

  const isSecure = (request: IncomingMessage): boolean => consoleUrl(request).startsWith("https:");
  const handlers: Readonly<Record<string, typeof begin>> = {
    [`/console/${oidcPaths.begin}`]: begin,
    [`/console/${oidcPaths.callback}`]: finish,
  };
  return (path) => {
    const handle = handlers[path];
    if (handle === undefined) return undefined;
    return (request, response) => {
      handle(request, response).catch((thrown: unknown) => {
        const error = GatewayError.from(thrown);
        log.warn({ issuer: config.issuer, ...errorFields(error) }, "sign-in failed");
        goBack(request, response, error.facts.http === 401 || error.facts.http === 403 ? "refused" : "unavailable");
      });
    };
  };
}

function redirect(response: ServerResponse, location: string, cookies: readonly string[]): void {
  response.writeHead(303, {
    location,
    "content-length": 0,
    "cache-control": "no-store",
    "referrer-policy": "no-referrer",
    "set-cookie": [...cookies],
  });
  response.end();
}
