import { createExchange, type Exchange, type SetTimer, timingOf, type TransportContext } from "../../core/exchange.ts";
import type { Clock, Principal } from "../../core/exchange.ts";
import type { Reply } from "../../core/pipeline.ts";
import { GatewayError } from "../../errors.ts";
import type { Message } from "../../protocol/message.ts";
import { synthesizeMessage } from "../../core/synthesize.ts";
import { newestLegacy, type Revision } from "../../protocol/revisions.ts";
import type { SessionRecord } from "../../sessions/session-record.ts";
import type { Session } from "../../sessions/session.ts";
import { cancelledError, type UpstreamLink } from "../../transports/transport.ts";

/** How long a server may take to start a new session. */
const handshakeTimeoutMs = 30_000;

export interface RestoredLinkDeps {
  readonly clock: Clock;
  readonly setTimer: SetTimer;
  readonly newId: () => string;
  /** Digest of the upstream's address. */
  readonly address: string;
  /** The server has started a new session: the state of the old one is gone. */
  readonly onBegunAnew: (session: Session) => void;
}

/** A session of another process, and the request that brought it here. */
export interface RestorableSession {
  readonly session: Session;
  readonly record: SessionRecord;
  readonly transport: TransportContext;
}

/**
 * Continues a session that began in another process over a new link. If the upstream's session can be resumed, nothing
 * is sent. Otherwise the client's handshake is repeated before the first message, and the server starts a new session.
 */
export function createRestoredLink(
  link: UpstreamLink,
  restorable: RestorableSession,
  deps: RestoredLinkDeps,
): UpstreamLink {
  const { session, record } = restorable;
  const handshake = createHandshake(restorable, deps);
  const resumable = record.upstream?.at === deps.address ? record.upstream.id : undefined;
  let isReady =
    resumable !== undefined &&
    link.resume?.({ session: resumable, revision: record.revision, ...handshake(session.principal) }) === true;
  let beginning: Promise<void> | undefined;

  async function begin(): Promise<void> {
    const { initialize, initialized } = handshake(session.principal);
    const stop = deps.setTimer(handshakeTimeoutMs, () => {
      initialize.cancellation.cancel("timeout");
    });
    try {
      const { message } = await link.request(initialize);
      if (message?.kind !== "result")
        throw new GatewayError("upstream_unreachable", "the server refused to start a new session");
      await link.send(initialized);
    } finally {
      stop();
    }
    isReady = true;
    deps.onBegunAnew(session);
  }

  /** Repeats the handshake once; after a failure the next message tries again. */
  function ready(): Promise<void> {
    beginning ??= begin().catch((error: unknown) => {
      beginning = undefined;
      throw GatewayError.from(error);
    });
    return beginning;
  }

  async function whenReady(exchange: Exchange, forward: () => Promise<Reply>): Promise<Reply> {
    if (!isReady) await ready();
    const { reason } = exchange.cancellation;
    if (reason !== undefined) throw cancelledError(reason);
    return forward();
  }

  return {
    get incarnation() {
      return link.incarnation;
    },
    get upstreamSession() {
      return link.upstreamSession;
    },
    get hasBackpressure() {
      return link.hasBackpressure;
    },
    get resolvedLink() {
      return isReady ? (link.resolvedLink ?? link) : undefined;
    },
    request: (exchange) => whenReady(exchange, () => link.request(exchange)),
    send: (exchange) => whenReady(exchange, () => link.send(exchange)),
    listen: async () => {
      try {
        if (!isReady) await ready();
      } catch {
        // The next request tries again, and its caller gets the error.
        return;
      }
      await link.listen();
    },
    close: (reason, isKept) => link.close(reason, isKept),
  };
}

/** Makes the two messages that open a session, as the client sent them. */
function createHandshake({ session, record, transport }: RestorableSession, { clock, newId }: RestoredLinkDeps) {
  const { protocolVersion, capabilities, clientInfo } = record.handshake;
  const revision: Revision = record.revision ?? newestLegacy;
  const version = JSON.stringify(protocolVersion === "" ? revision : protocolVersion);
  const params = `{"protocolVersion":${version},"capabilities":${capabilities},"clientInfo":${clientInfo}}`;
  const exchangeOf = (message: Message, principal: Principal): Exchange =>
    createExchange({
      id: newId(),
      message,
      route: session.route,
      principal,
      revision,
      session,
      transport,
      timing: timingOf(clock),
    });
  return (principal: Principal): { readonly initialize: Exchange; readonly initialized: Exchange } => {
    const id = JSON.stringify(`headgate-${newId()}`);
    const initialize = synthesizeMessage(`{"jsonrpc":"2.0","id":${id},"method":"initialize","params":${params}}`);
    const initialized = synthesizeMessage(`{"jsonrpc":"2.0","method":"notifications/initialized"}`);
    return { initialize: exchangeOf(initialize, principal), initialized: exchangeOf(initialized, principal) };
  };
}
