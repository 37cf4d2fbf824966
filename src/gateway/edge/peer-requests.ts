import { createHash, randomUUID } from "node:crypto";
import type { IncomingHttpHeaders, IncomingMessage, ServerResponse } from "node:http";
import { request as httpsRequest } from "node:https";

import type { Principal } from "../../core/exchange.ts";
import { GatewayError } from "../../errors.ts";
import { BoundedMap } from "../../lib/bounded-map.ts";
import { nodeHttp } from "../../lib/lazy-modules.ts";
import { createTtlCache } from "../../lib/ttl-cache.ts";
import type { ClusterMember } from "../context.ts";

/**
 * In a request, identifies the caller; sealed by the gateway that received the request from the client. In the response, the receipt
 * that was sealed with it: the address may have another process by now, whose answers are nobody's.
 */
const peerHeader = "headgate-peer";
/** Sent by a gateway that has begun to shut down. */
const leavingHeader = "headgate-leaving";

/** Sent by a gateway that does not accept a request as coming from a peer. */
const distrustHeader = "headgate-distrust";

/** How long a connection to a peer may take: it may hold its lease and still be unreachable from here. */
const connectMs = 2000;

/** How far the clocks of two gateways may differ, including the time a request is in transit. */
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
  leavingHeader,
]);

/** What a gateway vouches for when it forwards a request. */
export interface ForwardedCaller {
  readonly principal: Principal;
  readonly address: string | undefined;
  /** Digest of the body. */
  readonly body: string;
  /** What the response must carry. */
  readonly receipt: string;
  /** The request answers a server request: it is for a session of this gateway, or for none. */
  readonly isAnswer: boolean;
  /** The gateway that forwarded it, if that one is shutting down: others take over what it owns. */
  readonly leaving: string | undefined;
}

/** A request of a client that another gateway has to serve. */
export interface ForwardedRequest {
  readonly request: IncomingMessage;
  readonly body: Buffer | undefined;
  readonly principal: Principal;
  readonly address: string | undefined;
  readonly isAnswer?: boolean;
  /** Whether this gateway shuts down. */
  readonly isLeaving?: boolean;
  /** Further headers that the route takes credentials from. */
  readonly credentialHeaders: ReadonlySet<string>;
}

/** A gateway that requests are forwarded to. */
export interface RemotePeer {
  readonly node: string;
  readonly url: string;
  /** Aborted when its lease has ended. */
  readonly gone: AbortSignal;
}

/** The peer cannot be reached and has not received the request. */
export class PeerUnreachableError extends Error {}

/** Another process answered at the peer's address: it could not read what was sealed, so it has served nothing. */
export class NotThePeerError extends PeerUnreachableError {}

/**
 * Forwards a request to a peer and returns its response, headers first. Rejects if the peer cannot be reached, or its
 * lease ends. After that, the end of the peer breaks the response.
 */
export function sendToPeer(
  { node, seal, agent, subjectTokens }: Pick<ClusterMember, "node" | "seal" | "agent" | "subjectTokens">,
  { url, gone }: RemotePeer,
  { request, body, principal, address, isAnswer = false, isLeaving = false, credentialHeaders }: ForwardedRequest,
  wall: () => number,
): Promise<IncomingMessage> {
  const { method = "GET", url: path = "/" } = request;
  const headers: Record<string, string | string[]> = {};
  for (const [name, value] of Object.entries(request.headers))
    if (value !== undefined && !leftOut.has(name) && !credentialHeaders.has(name)) headers[name] = value;
  const caller = { ...principal, scopes: [...principal.scopes] };
  const receipt = randomUUID();
  const vouched: Vouched = {
    at: wall(),
    caller,
    token: subjectTokens.get(principal),
    address,
    receipt,
    isAnswer,
    leaving: isLeaving ? node : undefined,
    body: digestOf(body),
    headers: digestOf(headers),
  };
  headers[peerHeader] = seal.seal(Buffer.from(JSON.stringify(vouched)), contextOf(method, path));
  if (body !== undefined) headers["content-length"] = String(body.length);
  return new Promise((resolve, reject) => {
    const send = url.startsWith("https:") ? httpsRequest : nodeHttp.request;
    const sent = send({ ...addressOf(url), path, method, headers, agent, signal: gone }, (answer) => {
      if (answer.headers[peerHeader] === receipt || isRefusedByDistrust(answer)) {
        resolve(answer);
        return;
      }
      answer.destroy();
      reject(new NotThePeerError(`another process answers at ${url}`));
    });
    let isConnected = false;
    sent.once("socket", (socket) => {
      isConnected = !socket.connecting;
      if (isConnected) return;
      const giveUp = (): void => {
        sent.destroy(new Error(`no connection within ${connectMs} ms`));
      };
      socket.setTimeout(connectMs, giveUp);
      socket.once("connect", () => {
        isConnected = true;
        socket.setTimeout(0, giveUp);
      });
    });
    sent.on("error", (error) => {
      reject(isConnected ? error : new PeerUnreachableError(error.message, { cause: error }));
    });
    // The socket may carry many requests, so listeners of finished ones are removed.
    const abort = (): void => {
      sent.destroy();
    };
    request.socket.once("close", abort);
    sent.once("close", () => request.socket.off("close", abort));
    sent.end(body);
  });
}

/** Shows the peer that this gateway has read its request. */
export function sayReceived(response: ServerResponse, { receipt }: ForwardedCaller): void {
  response.setHeader(peerHeader, receipt);
}

/** Parsed once: there are few peers, and many requests for them. */
const addresses = new BoundedMap<string, { readonly hostname: string; readonly port: number | undefined }>(100);

function addressOf(url: string) {
  const known = addresses.get(url);
  if (known !== undefined) return known;
  const { hostname, port } = new URL(url);
  // Node takes the address of IPv6 without brackets.
  const address = { hostname: hostname.replace(/^\[(.*)\]$/u, "$1"), port: port === "" ? undefined : Number(port) };
  addresses.set(url, address);
  return address;
}

/** Marks a response to a peer: this gateway is shutting down. */
export function sayLeaving(response: ServerResponse): void {
  response.setHeader(leavingHeader, "true");
}

/** Whether a peer refused a request because it is shutting down. Another gateway can then serve it. */
export function isRefusedByLeaving({ statusCode, headers }: IncomingMessage): boolean {
  return statusCode === 503 && headers[leavingHeader] !== undefined;
}

/** Marks a response: the request was not accepted as coming from a peer. */
export function sayDistrust(response: ServerResponse): void {
  response.setHeader(distrustHeader, "true");
}

/** Whether a peer did not accept a request as ours. This says nothing about the client, which is not told. */
export function isRefusedByDistrust({ statusCode, headers }: IncomingMessage): boolean {
  return statusCode === 401 && headers[distrustHeader] !== undefined;
}

/** Passes a peer's response on to the client, as fast as the client reads it. */
export function passOn(from: IncomingMessage, to: ServerResponse): void {
  const headers = Object.fromEntries(Object.entries(from.headers).filter(([name]) => !leftOut.has(name)));
  const length = from.headers["content-length"];
  to.writeHead(from.statusCode ?? 502, length === undefined ? headers : { ...headers, "content-length": length });
  // An answer of a known length goes with its headers.
  if (length === undefined) to.flushHeaders();
  // Not `pipeline`, which costs a quarter of such a hop. Needed by bench replicas: "call that is handed to another gateway".
  from.pipe(to);
  // An early end of either side ends both; the client sees a broken response.
  from.on("error", () => {});
  from.once("close", () => {
    if (!from.complete) to.destroy();
  });
  to.once("close", () => {
    if (!from.complete) from.destroy();
  });
}

/** What is sealed. The body and the headers, and with them the session, are bound to the caller. */
interface Vouched {
  readonly at: number;
  readonly caller: Omit<Principal, "scopes"> & { readonly scopes: readonly string[] };
  /** The caller's own token, where servers get another in exchange for it. */
  readonly token: string | undefined;
  readonly address: string | undefined;
  readonly receipt: string;
  readonly isAnswer: boolean;
  readonly leaving: string | undefined;
  readonly body: string;
  readonly headers: string;
}

/** How many requests are remembered, so that none is served twice. */
const maxServed = 100_000;
/** Characters at the end of a seal that no other one has: its authentication tag. */
const tagLength = 22;

/** Creates the check of forwarded requests. It throws unless a gateway with our secret sent the request just now, and once. */
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
      throw new GatewayError("unauthenticated", "the headers differ from those that the peer forwarded");
    const tag = text.slice(-tagLength);
    if (served.get(tag) === true)
      throw new GatewayError("unauthenticated", "the request of the peer was served before");
    served.set(tag, true, 2 * maxAgeMs);
    const { caller, token, address, body, receipt, isAnswer, leaving } = vouched;
    const principal: Principal = { ...caller, scopes: new Set(caller.scopes) };
    if (token !== undefined) subjectTokens.set(principal, token);
    return { principal, address, body, receipt, isAnswer, leaving };
  };
}

/** Whether a body is the one that the peer forwarded. */
export function isBodyOf({ body }: ForwardedCaller, received: Buffer): boolean {
  return body === digestOf(received);
}

/** The error for a request whose body differs from the forwarded one. */
export function foreignBody(): GatewayError {
  return new GatewayError("unauthenticated", "the body differs from the one that the peer forwarded");
}

/** Digest of a body, or of the forwarded headers. */
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
