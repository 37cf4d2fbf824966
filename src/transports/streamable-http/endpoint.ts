import type { ByteBudget } from "../../core/byte-budget.ts";
import type { CredentialHeaders, CredentialProvider, Exchange, Principal } from "../../core/exchange.ts";
import { GatewayError } from "../../errors.ts";
import type { SetTimer } from "../../lib/clock.ts";
import { mirroredHeadersOf } from "../../protocol/http/mirrored-headers.ts";
import type { ParseLimits } from "../../protocol/message.ts";
import { type Era, type Revision, revisions } from "../../protocol/revisions.ts";
import type { HttpDispatcher } from "./connection-pool.ts";
import { ResponseReader, type StreamCounter } from "./response.ts";

/** One upstream server reached over HTTP; shared by all links to it. */
export interface HttpEndpoint {
  readonly origin: string;
  readonly path: string;
  /** Sent with every request. */
  readonly headers: Readonly<Record<string, string>>;
  /** Sent with every request, if they have to be obtained or depend on the caller. */
  readonly credentials?: CredentialProvider | undefined;
  /** Lower-case names of client headers that are forwarded. */
  readonly forwardHeaders: readonly string[];
  /** Bounds connections for calls only: a stream would keep calls waiting, and calls wait for answers. */
  readonly dispatcher: HttpDispatcher;
  readonly limits: ParseLimits;
  readonly setTimer: SetTimer;
  /** How long it may take for what has no timeout of its own: to accept a message without an answer, or a renewed session. */
  readonly quickMs: number;
  readonly newId: () => string;
  readonly onStreamCount?: StreamCounter | undefined;
  /** Counts what has arrived of answers, for the callers that asked. */
  readonly bytes?: ByteBudget | undefined;
}

/** What a link has agreed with its upstream. */
export interface HttpSessionState {
  readonly era: Era;
  /** The upstream's session id, if it assigned one. */
  session: string | undefined;
  /** The revision of the handshake; modern requests carry their own. */
  revision: Revision | undefined;
  /** The last caller, for requests that belong to no call. */
  principal: Principal | undefined;
}

/** How long the upstream may take to confirm the end of a session. */
const deleteTimeoutMs = 2000;

/** The credentials for a request that belongs to no call; undefined if there are none. */
export async function sessionCredentials(
  { credentials }: Pick<HttpEndpoint, "credentials">,
  { principal }: HttpSessionState,
): Promise<CredentialHeaders | undefined> {
  if (credentials === undefined || principal === undefined) return undefined;
  try {
    return await credentials.headersFor(principal);
  } catch {
    // Without them the upstream answers 401, which the caller handles anyway.
    return undefined;
  }
}

/** The headers of a request: configured ones, forwarded ones, trace, credentials, and those of the protocol. */
export function requestHeaders(
  endpoint: Pick<HttpEndpoint, "headers" | "forwardHeaders">,
  state: HttpSessionState,
  exchange: Exchange | undefined,
  credentials?: CredentialHeaders,
): Readonly<Record<string, string>> {
  const received = exchange?.transport.type === "http" ? exchange.transport.headers : undefined;
  const headers: Record<string, string> = {
    "content-type": "application/json",
    accept: "application/json, text/event-stream",
    "accept-encoding": "identity",
    ...endpoint.headers,
  };
  if (received !== undefined) {
    for (const name of endpoint.forwardHeaders) {
      const value = received[name];
      if (value !== undefined) headers[name] = value;
    }
  }
  // Replaces the client's trace headers: the message continues as part of our span.
  if (exchange?.traceHeaders !== undefined) Object.assign(headers, exchange.traceHeaders);
  // After the client's headers, so that a client cannot override them.
  if (credentials !== undefined) Object.assign(headers, credentials);
  if (state.era === "legacy") {
    if (state.session !== undefined) headers["mcp-session-id"] = state.session;
    if (state.revision !== undefined && revisions[state.revision].versionHeader !== "none") {
      headers["mcp-protocol-version"] = state.revision;
    }
  } else if (exchange !== undefined) {
    addMirroredHeaders(headers, exchange, received);
  }
  return headers;
}

/** Modern: standard headers are computed from the body that is sent; parameter headers are forwarded. */
function addMirroredHeaders(
  headers: Record<string, string>,
  exchange: Exchange,
  received: Readonly<Record<string, string>> | undefined,
): void {
  const { message } = exchange;
  if (message.kind !== "request" && message.kind !== "notification") return;
  const mirrored = mirroredHeadersOf(message, exchange.revision);
  if (!mirrored.ok) throw new GatewayError("invalid_params", mirrored.message);
  for (const [name, value] of mirrored.headers) headers[name] = value;
  // Parameter headers of the client describe its own body, not one that an interceptor has changed.
  if (received === undefined || message !== exchange.original) return;
  for (const name in received) {
    const value = received[name];
    if (name.startsWith("mcp-param-") && value !== undefined) headers[name] = value;
  }
}

/** Asks the upstream to delete the session. It may refuse (405) or be gone; both are fine. */
export async function deleteSession(endpoint: HttpEndpoint, state: HttpSessionState): Promise<void> {
  const { origin, path, dispatcher, setTimer, limits } = endpoint;
  const headers = requestHeaders(endpoint, state, undefined, await sessionCredentials(endpoint, state));
  return new Promise((resolve) => {
    const done = () => {
      stop();
      resolve();
    };
    const reader = new ResponseReader(
      { onHeaders: () => {}, onEvent: () => {}, onEnd: done, onError: done },
      limits.maxBytes,
    );
    const stop = setTimer(deleteTimeoutMs, () => {
      reader.abort(new GatewayError("upstream_timeout", "the upstream did not confirm the end of the session"));
      resolve();
    });
    dispatcher.dispatch({ origin, path, method: "DELETE", headers }, reader);
  });
}

/** The error for a message that the upstream does not accept. */
export function notAccepted(): GatewayError {
  return new GatewayError("upstream_timeout", "the upstream did not accept the message in time");
}

/** The error for a message while so many others wait to be accepted. */
export function tooManyUnaccepted(limit: number): GatewayError {
  return new GatewayError("overloaded", "too many messages wait to be accepted by the upstream", {
    details: { current: limit, limit, retryAfter: 1 },
  });
}

/** Each has a connection of its own, because none may wait for a call. */
const maxUnaccepted = 1000;

/** Bounds the answers and notifications of one link that its upstream has not accepted yet. */
export class UnacceptedCount {
  #count = 0;

  /** Throws where there are too many. */
  enter(): void {
    if (this.#count >= maxUnaccepted) throw tooManyUnaccepted(maxUnaccepted);
    this.#count++;
  }

  leave(): void {
    this.#count--;
  }
}
