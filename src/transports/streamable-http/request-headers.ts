import type { Exchange, Principal } from "../../core/exchange.ts";
import { mirroredHeadersOf } from "../../protocol/http/mirrored-headers.ts";
import { type Era, type Revision, revisions } from "../../protocol/revisions.ts";
import { GatewayError } from "../../errors.ts";
import type { CredentialProvider } from "../credential-provider.ts";

/** What a link has agreed with its upstream. */
export interface HttpSessionState {
  readonly era: Era;
  /** The upstream's session id, where it gave one. */
  session: string | undefined;
  /** The revision of the handshake; modern requests name theirs one by one. */
  revision: Revision | undefined;
  /** Who called last, for requests that belong to no call of anybody. */
  principal: Principal | undefined;
  /** The headers of messages with nothing of their own, as they were last made. */
  cachedHeaders?: {
    readonly session: string | undefined;
    readonly revision: Revision | undefined;
    readonly headers: Readonly<Record<string, string>>;
  };
}

/** The credentials for a request that belongs to no call; undefined where there are none, or none to be had. */
export async function sessionCredentials(
  { credentials }: { readonly credentials?: CredentialProvider | undefined },
  { principal }: HttpSessionState,
): Promise<Readonly<Record<string, string>> | undefined> {
  if (credentials === undefined || principal === undefined) return undefined;
  try {
    return await credentials.headersFor(principal);
  } catch {
    // Without them the upstream will refuse, which is what the caller deals with anyway.
    return undefined;
  }
}

/** The headers of a request to an upstream: fixed ones, allowed ones of the client, credentials, and the protocol's. */
export function requestHeaders(
  upstream: {
    readonly headers: Readonly<Record<string, string>>;
    readonly forwardHeaders: readonly string[];
  },
  state: HttpSessionState,
  exchange: Exchange | undefined,
  own?: Readonly<Record<string, string>>,
): Readonly<Record<string, string>> {
  const received = exchange?.transport.type === "http" ? exchange.transport.headers : undefined;
  const isPlain =
    state.era === "legacy" &&
    own === undefined &&
    exchange?.traceHeaders === undefined &&
    (upstream.forwardHeaders.length === 0 || received === undefined);
  // The same for message after message of a session.
  if (isPlain) {
    const { cachedHeaders: plain } = state;
    const isSame = plain !== undefined && plain.session === state.session && plain.revision === state.revision;
    if (isSame) return plain.headers;
  }
  const headers: Record<string, string> = {
    "content-type": "application/json",
    accept: "application/json, text/event-stream",
    "accept-encoding": "identity",
    ...upstream.headers,
  };
  if (received !== undefined) {
    for (const name of upstream.forwardHeaders) {
      const value = received[name];
      if (value !== undefined) headers[name] = value;
    }
  }
  // In place of what a client says of its trace: the message goes on as part of ours.
  if (exchange?.traceHeaders !== undefined) Object.assign(headers, exchange.traceHeaders);
  // Last, so that nothing a client sends can stand in their place.
  if (own !== undefined) Object.assign(headers, own);
  if (state.era === "legacy") {
    if (state.session !== undefined) headers["mcp-session-id"] = state.session;
    if (state.revision !== undefined && revisions[state.revision].versionHeader !== "none") {
      headers["mcp-protocol-version"] = state.revision;
    }
    if (isPlain) state.cachedHeaders = { session: state.session, revision: state.revision, headers };
  } else if (exchange !== undefined) {
    addMirroredHeaders(headers, exchange, received);
  }
  return headers;
}

/** Modern: the standard headers are computed from the body that is really sent; parameter headers are passed on. */
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
  if (received === undefined || message !== exchange.original) return;
  for (const name in received) {
    const value = received[name];
    if (name.startsWith("mcp-param-") && value !== undefined) headers[name] = value;
  }
}
