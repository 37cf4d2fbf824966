import { isJsonContentType } from "@modelcontextprotocol/server";

import type { Authentication, AuthenticationFailure } from "../../auth/authenticator.ts";
import { formatChallenge } from "../../auth/resource-server.ts";
import { anonymous, type Principal } from "../../core/exchange.ts";
import type { HttpEdgeDeps, PeerDetails } from "../contract/contract.ts";
import type { Peer } from "../contract/peer.ts";
import { refuseRequest, type HttpRefusal } from "./refusal.ts";

/** A request at the door, with what is known of it. */
export interface InboundRequest {
  readonly request: Request;
  readonly details: PeerDetails;
  readonly peer: Peer;
  /** Parsed once. */
  readonly url: URL;
  /** Whether a token in the query counts: only where a browser can send no header (KO-102). */
  readonly allowsQueryToken: boolean;
  /** The base route as this client knows it. */
  readonly resource: string;
  /** What tokens must be issued for (RFC 8707); unset where only the client's own word says what we are called. */
  readonly audience: readonly string[] | undefined;
  /** Where the challenge sends clients that want to log in (RFC 9728). */
  readonly resourceMetadataUrl: string;
}

/** Who it is, or the answer that says why nobody is let in. */
export type CallerAuthentication =
  | { readonly ok: true; readonly principal: Principal }
  | { readonly ok: false; readonly response: HttpRefusal; readonly hadCredentials: boolean };

/** Finds out who calls and whether that is enough to come in. */
export type AuthenticateRequest = (arrival: InboundRequest) => Promise<CallerAuthentication>;

interface QueryToken {
  readonly token: string;
  readonly isAllowed: boolean;
}

/** Makes the door of an edge: bearer tokens first, then the host's own login, then nobody (KO-094 to KO-096, KO-140). */
export function createRequestAuthentication({
  core,
  authenticator,
  identify,
  log,
  clock,
}: HttpEdgeDeps): AuthenticateRequest {
  const challenge = (
    arrival: InboundRequest,
    failure?: AuthenticationFailure,
    reason?: string,
  ): CallerAuthentication => ({
    ok: false,
    hadCredentials: failure !== undefined,
    response: refuseRequest("unauthorized", {
      ...(failure === undefined ? {} : { message: failure.description }),
      ...(reason === undefined ? {} : { reason }),
      headers: { "www-authenticate": failureChallenge(arrival.resourceMetadataUrl, failure) },
    }),
  });

  async function verify(arrival: InboundRequest, token: string | undefined): Promise<Authentication | undefined> {
    const { headers } = arrival.request;
    const authorization = token === undefined ? (headers.get("authorization") ?? undefined) : `Bearer ${token}`;
    return authenticator?.authenticate({
      header: (name) => (name === "authorization" ? authorization : (headers.get(name) ?? undefined)),
      audience: arrival.audience,
    });
  }

  function queryToken({
    request,
    url,
    peer,
    allowsQueryToken: mayUseQueryToken,
  }: InboundRequest): QueryToken | undefined {
    const token = url.searchParams.get("access_token");
    if (!mayUseQueryToken || token === null || token === "" || request.headers.has("authorization")) {
      return undefined;
    }
    const { allowQueryToken, deployed, enableRateLimiting } = core.settings();
    // A query ends up in logs and histories, so it needs more protection than a header (KO-103).
    const isSafe = !deployed || (peer.isHttps && enableRateLimiting);
    return { token, isAllowed: allowQueryToken !== false && isSafe };
  }

  function admit(arrival: InboundRequest, principal: Principal): CallerAuthentication {
    if (principal.expiresAt === undefined || principal.expiresAt > clock.wall()) return { ok: true, principal };
    return challenge(arrival, { error: "invalid_token", description: "The credentials have expired." });
  }

  return async (arrival) => {
    const inQuery = queryToken(arrival);
    if (inQuery?.isAllowed === false) return challenge(arrival, undefined, "query_token_refused");
    const verified = await verify(arrival, inQuery?.token);
    if (verified?.ok === true) return admit(arrival, verified.principal);
    if (verified !== undefined && verified.failure.error !== "missing") {
      const { failure } = verified;
      log.info({ error: failure.error, path: arrival.url.pathname }, "credentials refused");
      if (failure.error !== "unavailable") return challenge(arrival, failure);
      return { ok: false, hadCredentials: true, response: refuseRequest("authentication_unavailable") };
    }
    const known = await identify?.(arrival.request, arrival.details);
    if (known !== undefined && known.kind !== "anonymous") {
      const forged = checkCookieRequest(arrival);
      return forged === undefined ? admit(arrival, known) : { ok: false, response: forged, hadCredentials: true };
    }
    if (core.settings().requireAuthentication && !core.allowsAnonymous()) return challenge(arrival);
    return { ok: true, principal: anonymous };
  };
}

/**
 * A browser adds cookies to what any page sends, so a change that is authenticated by cookie has to name its page; that
 * this page is an allowed one was checked before (KO-140).
 */
function checkCookieRequest({ request: { method, headers } }: InboundRequest): HttpRefusal | undefined {
  const isChange = method !== "GET" && method !== "HEAD";
  if (!isChange || !headers.has("cookie") || headers.has("authorization")) return undefined;
  if ((headers.get("origin") ?? "") === "") return refuseRequest("origin_refused", { reason: "origin_required" });
  // A form of a foreign page can send other types without asking first.
  if (method === "DELETE" || isJsonContentType(headers.get("content-type"))) return undefined;
  return refuseRequest("unsupported_media_type");
}

function failureChallenge(metadataUrl: string, failure: AuthenticationFailure | undefined): string {
  if (failure === undefined) return formatChallenge({ metadataUrl });
  const error = failure.error === "invalid_request" ? "invalid_request" : "invalid_token";
  return formatChallenge({ error, description: failure.description, metadataUrl });
}
