import { createHash } from "node:crypto";
import { Agent, type IncomingMessage, request as httpRequest, type ServerResponse } from "node:http";
import { pipeline } from "node:stream";

import type { Principal } from "../../core/exchange.ts";
import { GatewayError } from "../../errors.ts";
import type { Seal } from "../../lib/keys/sealing.ts";
import type { ClusterMember } from "../context.ts";

/** Says who calls, sealed by the gateway that took the request from its client. */
const peerHeader = "headgate-peer";
/** The request is the answer to a question that may wait at the other gateway. */
const answerHeader = "headgate-answer";

/** How far the clocks of two gateways may differ, and how long a request may be on its way. */
const maxAgeMs = 60_000;

/** Headers that belong to one connection (RFC 9110, 7.6.1), or to the client's credentials, which stay at the edge. */
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
  answerHeader,
]);

const agent = new Agent({ keepAlive: true });

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
}

/** Hands a request to a peer and returns its response, headers first. Rejects if the peer cannot be reached. */
export function sendToPeer(
  { seal }: Pick<ClusterMember, "seal">,
  url: string,
  { request, body, principal, address, isAnswer = false }: ForwardedRequest,
  wall: () => number,
): Promise<IncomingMessage> {
  const { method = "GET", url: path = "/" } = request;
  const headers: Record<string, string | string[] | number> = {};
  for (const [name, value] of Object.entries(request.headers))
    if (value !== undefined && !leftOut.has(name)) headers[name] = value;
  const caller = { ...principal, scopes: [...principal.scopes] };
  const content = JSON.stringify({ at: wall(), caller, address, body: digestOf(body) });
  headers[peerHeader] = seal.seal(Buffer.from(content), contextOf(method, path));
  if (isAnswer) headers[answerHeader] = "1";
  if (body !== undefined) headers["content-length"] = body.length;
  return new Promise((resolve, reject) => {
    const sent = httpRequest(new URL(path, url), { method, headers, agent }, resolve);
    sent.on("error", reject);
    request.socket.once("close", () => sent.destroy());
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

/** The caller of a request that a peer handed over; throws unless a gateway with our secret did. */
export function forwardedCaller(seal: Seal, request: IncomingMessage, wall: () => number): ForwardedCaller {
  const text = request.headers[peerHeader];
  const content =
    typeof text === "string" ? seal.open(text, contextOf(request.method ?? "", request.url ?? "")) : undefined;
  if (content === undefined) throw new GatewayError("unauthenticated", "peers only");
  // The seal proves that sendToPeer wrote it.
  const { at, caller, address, body } = JSON.parse(content.toString()) as {
    readonly at: number;
    readonly caller: Omit<Principal, "scopes"> & { readonly scopes: readonly string[] };
    readonly address?: string;
    readonly body: string;
  };
  if (Math.abs(wall() - at) > maxAgeMs)
    throw new GatewayError("unauthenticated", "the request of the peer is too old, or the clocks differ");
  const principal: Principal = { ...caller, scopes: new Set(caller.scopes) };
  return { principal, address, body, isAnswer: request.headers[answerHeader] !== undefined };
}

/** Whether a body is the one that the peer handed over. */
export function isBodyOf({ body }: ForwardedCaller, received: Buffer): boolean {
  return body === digestOf(received);
}

function digestOf(body: Buffer | undefined): string {
  return body === undefined ? "" : createHash("sha256").update(body).digest("base64url");
}

function contextOf(method: string, path: string): string {
  return `${method} ${path}`;
}
