import { isJsonContentType } from "@modelcontextprotocol/server";

import type { Authentication, AuthenticationFailure } from "../../auth/authenticator.ts";
import { formatChallenge } from "../../auth/resource-server.ts";
import { anonymous, type Principal } from "../../core/exchange.ts";
import type { InboundRequest } from "./admission.ts";
import type { HttpEdgeDeps } from "./contract.ts";
import { type HttpRefusal, refuseRequest } from "./refusal.ts";

/** The principal of a request, or the response that refuses it. */
export type CallerAuthentication =
  | { readonly ok: true; readonly principal: Principal }
  | { readonly ok: false; readonly response: HttpRefusal; readonly hadCredentials: boolean };

/** Authenticates a request. */
export type AuthenticateRequest = (inbound: InboundRequest) => Promise<CallerAuthentication>;

/** Authenticates by bearer token, else by the host's login, else as anonymous (KO-094 to KO-096, KO-140). */
export function createRequestAuthentication(deps: HttpEdgeDeps): AuthenticateRequest {
  const { core, authenticator, identify, log, clock } = deps;

  async function verify({ request, audience }: InboundRequest, token: string | undefined) {
    const { headers } = request;
    const authorization = token === undefined ? (headers.get("authorization") ?? undefined) : `Bearer ${token}`;
    return authenticator?.authenticate({
      header: (name) => (name === "authorization" ? authorization : (headers.get(name) ?? undefined)),
      audience,
    });
  }

  /** The token in the query, and whether it may be used. */
  function readQueryToken({ request, url, peer, allowsQueryToken }: InboundRequest) {
    const token = url.searchParams.get("access_token");
    if (!allowsQueryToken || token === null || token === "" || request.headers.has("authorization")) return undefined;
    const { allowQueryToken, deployed, enableRateLimiting } = core.settings();
    // URLs end up in logs and histories, so a token in the query needs more protection than one in a header (KO-103).
    const isSafe = !deployed || (peer.isHttps && enableRateLimiting);
    return { token, isAllowed: allowQueryToken !== false && isSafe };
  }

  function accept(inbound: InboundRequest, principal: Principal): CallerAuthentication {
    const isExpired = principal.expiresAt !== undefined && principal.expiresAt <= clock.wall();
    if (!isExpired) return { ok: true, principal };
    return challenge(inbound, { error: "invalid_token", description: "The credentials have expired." });
  }

  function reject(inbound: InboundRequest, failure: AuthenticationFailure): CallerAuthentication {
    log.info({ error: failure.error, path: inbound.url.pathname }, "authentication failed");
    if (failure.error !== "unavailable") return challenge(inbound, failure);
    return { ok: false, hadCredentials: true, response: refuseRequest("authentication_unavailable") };
  }

  return async (inbound) => {
    const inQuery = readQueryToken(inbound);
    if (inQuery?.isAllowed === false) return challenge(inbound, undefined, "query_token_refused");
    const verified: Authentication | undefined = await verify(inbound, inQuery?.token);
    if (verified?.ok === true) return accept(inbound, verified.principal);
    if (verified !== undefined && verified.failure.error !== "missing") return reject(inbound, verified.failure);
    const user = await identify?.(inbound.request, inbound.details);
    if (user !== undefined && user.kind !== "anonymous") {
      const forgery = checkCookieRequest(inbound);
      return forgery === undefined ? accept(inbound, user) : { ok: false, response: forgery, hadCredentials: true };
    }
    if (core.settings().requireAuthentication && !core.allowsAnonymous()) return challenge(inbound);
    return { ok: true, principal: anonymous };
  };
}

/** The 401 response, with the challenge that tells clients where to log in. */
function challenge(inbound: InboundRequest, failure?: AuthenticationFailure, reason?: string): CallerAuthentication {
  const { resourceMetadataUrl: metadataUrl } = inbound;
  const header =
    failure === undefined
      ? formatChallenge({ metadataUrl })
      : formatChallenge({
          error: failure.error === "invalid_request" ? "invalid_request" : "invalid_token",
          description: failure.description,
          metadataUrl,
        });
  return {
    ok: false,
    hadCredentials: failure !== undefined,
    response: refuseRequest("unauthorized", {
      ...(failure === undefined ? {} : { message: failure.description }),
      ...(reason === undefined ? {} : { reason }),
      headers: { "www-authenticate": header },
    }),
  };
}

/**
 * Guards against cross-site request forgery: a browser adds cookies to what any page sends, so a change authenticated
 * by cookie must have an Origin, which was checked before (KO-140).
 */
function checkCookieRequest({ request: { method, headers } }: InboundRequest): HttpRefusal | undefined {
  const isChange = method !== "GET" && method !== "HEAD";
  if (!isChange || !headers.has("cookie") || headers.has("authorization")) return undefined;
  if ((headers.get("origin") ?? "") === "") return refuseRequest("origin_refused", { reason: "origin_required" });
  // An HTML form can send other content types without a preflight.
  if (method === "DELETE" || isJsonContentType(headers.get("content-type"))) return undefined;
  return refuseRequest("unsupported_media_type");
}
