import { createHash } from "node:crypto";
import { type IncomingHttpHeaders, type IncomingMessage, request as httpRequest, type ServerResponse } from "node:http";
import { request as httpsRequest } from "node:https";
import { pipeline } from "node:stream";

import type { Principal } from "../../core/exchange.ts";
import { GatewayError } from "../../errors.ts";
import { createTtlCache } from "../../lib/ttl-cache.ts";
import type { ClusterMember } from "../context.ts";

/** Says who calls, sealed by the gateway that took the request from its client. */
const peerHeader = "headgate-peer";

/** How far the clocks of two gateways may differ, and how long a request may be on its way. */
const maxAgeMs = 60_000;

/**
 * Headers that belong to one connection (RFC 9110, 7.6.1), or to the client's credentials, which stay at the edge. Where
 * callers authenticate with a header of another name, that stays too.
 */
const leftOut: ReadonlySet<string> = new Set([
  "connection",
  "keep-alive",
  "transfer-encoding",
  "upgrade",
  "te",
  "trailer",
  "proxy-authorization",
  "authorization",
  "cookie",
  "content-length",
  "expect",
  peerHeader,
]);

/** What a gateway vouches for when it hands a request over. */
export interface ForwardedCaller {
  readonly principal: Principal;
  readonly address: string | undefined;
  /** Digest of the body. */
  readonly body: string;
  /** The request is the answer to a question: it is for a session that is here, or for nobody. */
  readonly isAnswer: boolean;
}

/** A request of a client that another gateway has to serve. */
export interface ForwardedRequest {
  readonly request: IncomingMessage;
  readonly body: Buffer | undefined;
  readonly principal: Principal;
  readonly address: string | undefined;
  readonly isAnswer?: boolean;
  /** Further headers that the route takes credentials from. */
  readonly credentialHeaders: ReadonlySet<string>;
}

/** Hands a request to a peer and returns its response, headers first. Rejects if the peer cannot be reached. */
export function sendToPeer(
  { seal, agent, subjectTokens }: Pick<ClusterMember, "seal" | "agent" | "subjectTokens">,
  url: string,
  { request, body, principal, address, isAnswer = false, credentialHeaders }: ForwardedRequest,
  wall: () => number,
): Promise<IncomingMessage> {
  const { method = "GET", url: path = "/" } = request;
  const headers: Record<string, string | string[]> = {};
  for (const [name, value] of Object.entries(request.headers))
    if (value !== undefined && !leftOut.has(name) && !credentialHeaders.has(name)) headers[name] = value;
  const caller = { ...principal, scopes: [...principal.scopes] };
  const vouched: Vouched = {
    at: wall(),
    caller,
    token: subjectTokens.get(principal),
    address,
    isAnswer,
    body: digestOf(body),
    headers: digestOf(headers),
  };
  headers[peerHeader] = seal.seal(Buffer.from(JSON.stringify(vouched)), contextOf(method, path));
  if (body !== undefined) headers["content-length"] = String(body.length);
  return new Promise((resolve, reject) => {
    const send = url.startsWith("https:") ? httpsRequest : httpRequest;
    const sent = send(new URL(path, url), { method, headers, agent }, resolve);
    sent.on("error", reject);
    // The socket may carry many requests, so it keeps no listener of one that is over.
    const abort = (): void => {
      sent.destroy();
    };
    request.socket.once("close", abort);
    sent.once("close", () => request.socket.off("close", abort));
    sent.end(body);
  });
}

/** Passes a peer's response on to the client, as fast as the client reads it. */
export function passOn(from: IncomingMessage, to: ServerResponse): void {
  const headers = Object.fromEntries(Object.entries(from.headers).filter(([name]) => !leftOut.has(name)));
  const length = from.headers["content-length"];
  to.writeHead(from.statusCode ?? 502, length === undefined ? headers : { ...headers, "content-length": length });
  to.flushHeaders();
  // An error on either side ends both; the client sees a broken response.
  pipeline(from, to, () => {});
}

/** What is sealed. The body and the headers, and with them the session, are bound to the caller. */
interface Vouched {
  readonly at: number;
  readonly caller: Omit<Principal, "scopes"> & { readonly scopes: readonly string[] };
  /** The caller's own token, where servers get another in exchange for it. */
  readonly token: string | undefined;
  readonly address: string | undefined;
  readonly isAnswer: boolean;
  readonly body: string;
  readonly headers: string;
}

/** How many requests are remembered, so that none is served twice. */
const maxServed = 100_000;
/** Characters at the end of a seal that no other one has: its authentication tag. */
const tagLength = 22;

/** Creates the check of requests that peers hand over. It throws unless a gateway with our secret did, just now and once. */
export function createPeerCheck(
  { seal, subjectTokens }: Pick<ClusterMember, "seal" | "subjectTokens">,
  wall: () => number,
): (request: IncomingMessage) => ForwardedCaller {
  const served = createTtlCache<true>(maxServed, wall);
  return (request) => {
    const { method = "", url = "", headers } = request;
    const text = headers[peerHeader];
    const content = typeof text === "string" ? seal.open(text, contextOf(method, url)) : undefined;
    if (typeof text !== "string" || content === undefined) throw new GatewayError("unauthenticated", "peers only");
    // The seal proves that sendToPeer wrote it.
    const vouched = JSON.parse(content.toString()) as Vouched;
    if (Math.abs(wall() - vouched.at) > maxAgeMs)
      throw new GatewayError("unauthenticated", "the request of the peer is too old, or the clocks differ");
    if (vouched.headers !== digestOf(headers))
      throw new GatewayError("unauthenticated", "the headers are not those that the peer handed over");
    const tag = text.slice(-tagLength);
    if (served.get(tag) === true)
      throw new GatewayError("unauthenticated", "the request of the peer was served before");
    served.set(tag, true, 2 * maxAgeMs);
    const { caller, token, address, body, isAnswer } = vouched;
    const principal: Principal = { ...caller, scopes: new Set(caller.scopes) };
    if (token !== undefined) subjectTokens.set(principal, token);
    return { principal, address, body, isAnswer };
  };
}

/** Whether a body is the one that the peer handed over. */
export function isBodyOf({ body }: ForwardedCaller, received: Buffer): boolean {
  return body === digestOf(received);
}

/** Digest of a body, or of the headers that are handed over. */
function digestOf(content: Buffer | IncomingHttpHeaders | undefined): string {
  if (content === undefined) return "";
  const bytes = Buffer.isBuffer(content)
    ? content
    : JSON.stringify(
        Object.entries(content)
          .filter(([name]) => !leftOut.has(name))
          .toSorted(([a], [b]) => (a < b ? -1 : 1)),
      );
  return createHash("sha256").update(bytes).digest("base64url");
}

function contextOf(method: string, path: string): string {
  return `${method} ${path}`;
}
