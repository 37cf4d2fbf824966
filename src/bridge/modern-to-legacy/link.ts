import { GatewayError } from "../../errors.ts";
import type { Exchange, SetTimer, TransportContext } from "../../core/exchange.ts";
import { noReply, type Reply } from "../../core/pipeline.ts";
import type { Message, RequestMessage } from "../../protocol/message.ts";
import { metadataOf } from "../../protocol/metadata.ts";
import { methodFacts } from "../../protocol/methods.ts";
import { newestModern } from "../../protocol/revisions.ts";
import { errorMessage, resultMessage } from "../../core/reply.ts";
import type { LinkEvents, UpstreamLink } from "../../transports/transport.ts";
import type { BridgedCall } from "./bridged-call.ts";
import { createCallRunner, deliverClientResponse, RunningCalls } from "./call-runner.ts";
import { formatDiscoverResult } from "./handshake.ts";
import { LegacySession, type LegacySessionEvents, type OpenLegacyLink } from "./legacy-session.ts";
import { createLegacySessionPool, type PoolLimits } from "./legacy-session-pool.ts";
import { toLegacyNotification } from "./legacy-request.ts";
import { createListenSubscriptions, isChangeNotification, type SubscriptionLimits } from "./subscriptions.ts";
import type { SuspendedCalls } from "./suspended-calls.ts";
import { untilCancelled } from "../until-cancelled.ts";

/** Bounds of one bridged scope. */
export interface ModernToLegacyLimits extends PoolLimits, SubscriptionLimits {
  /** How long the server may take for what the gateway itself asks of it, such as the handshake. */
  readonly gatewayRequestMs: number;
  /** How often one call may send the user to open URLs. */
  readonly urlRounds: number;
}

const defaultModernToLegacyLimits: ModernToLegacyLimits = {
  sessions: 4,
  waiting: 256,
  idleMs: 60_000,
  subscriptions: 1024,
  undelivered: 1024,
  gatewayRequestMs: 30_000,
  urlRounds: 8,
};

/** What the bridge is made of. */
export interface ModernToLegacyDeps {
  /** Opens a link to the server for one legacy session; may be called several times. */
  readonly openLegacy: OpenLegacyLink;
  readonly events: LinkEvents;
  /** Where calls wait while the server asks; the route asks there too, for questions of modern exchanges. */
  readonly suspendedCalls: SuspendedCalls;
  readonly setTimer: SetTimer;
  readonly newId: () => string;
  readonly limits?: ModernToLegacyLimits;
}

/** The link of one scope. */
export interface ModernToLegacyLink extends UpstreamLink {
  /** Whether no call runs or is parked and nobody listens. */
  readonly isIdle: boolean;
}

/**
 * Makes a link that takes modern requests to a server that only knows legacy sessions. It is for one principal and one
 * set of client capabilities, because a legacy session has both from its beginning to its end.
 */
export function createModernToLegacyLink(options: ModernToLegacyDeps): ModernToLegacyLink {
  const { openLegacy, events, suspendedCalls: parking, setTimer, newId } = options;
  const limits = options.limits ?? defaultModernToLegacyLimits;
  const peerOptions = { openLegacy, setTimer, gatewayRequestMs: limits.gatewayRequestMs };
  const peerEvents: LegacySessionEvents = {
    message: fromServer,
    malformed: (bytes, reason) => {
      events.malformed(bytes, reason);
    },
    error: (error) => {
      events.error(error);
    },
    findCall: (peer, key) => running.find(peer, key),
    closed: (peer, error) => {
      // The scope goes on with a new session; only what cannot be taken over to it ends.
      events.error(error);
      if (peer === pool.primary) listens.endAll();
    },
    renewed: (peer) => {
      if (peer === pool.primary) listens.renew();
    },
  };
  const running = new RunningCalls();
  const pool = createLegacySessionPool(limits, setTimer, () => new LegacySession(peerOptions, peerEvents));
  const listens = createListenSubscriptions(pool.primary, events, limits);
  const calls = createCallRunner({ pool, running, events, newId, urlRounds: limits.urlRounds });

  const deliver: LinkEvents["message"] = (notice, related, context) => events.message(notice, related, context);

  function request(exchange: Exchange): Promise<Reply> {
    try {
      return answerOf(exchange);
    } catch (error) {
      return Promise.reject(GatewayError.from(error));
    }
  }

  function answerOf(exchange: Exchange): Promise<Reply> {
    const { message } = exchange;
    if (message.kind !== "request") throw new GatewayError("internal", "only requests have answers");
    if (message.method === "server/discover") return discover(exchange, message);
    if (message.method === "subscriptions/listen") return listens.listen(exchange, message);
    const facts = methodFacts(message.method);
    // A method that no revision knows may be the server's own; one that this revision has given up is not served.
    if (facts !== undefined && facts.forms[newestModern] !== "core")
      throw new GatewayError("method_not_found", `there is no ${message.method} in ${newestModern}`);
    const resumed = facts?.inputRequired === true ? parking.resume(exchange, message) : undefined;
    if (resumed !== undefined) return resumed;
    const call = parking.createCall(deliver, exchange, message);
    const reply = call.start(exchange);
    calls.run(call);
    return reply;
  }

  async function discover(exchange: Exchange, message: RequestMessage): Promise<Reply> {
    const facts = await untilCancelled(exchange, pool.primary.ready(exchange));
    return { message: resultMessage(message.id, formatDiscoverResult(facts)) };
  }

  async function send(exchange: Exchange): Promise<Reply> {
    const { message } = exchange;
    if (message.kind === "result" || message.kind === "error") {
      const call = parking.callOf(exchange);
      // What was asked in a call that is over needs no answer any more.
      if (call?.isOver === false) await deliverClientResponse(call, message);
    } else if (message.kind === "notification" && methodFacts(message.method) === undefined) {
      // What modern clients may notify of has no meaning upstream: a cancel is the end of an exchange of theirs.
      await pool.primary.forwardNotification(exchange, toLegacyNotification(message));
    }
    return noReply;
  }

  function fromServer(
    peer: LegacySession,
    message: Message,
    call: BridgedCall | undefined,
    context: TransportContext,
  ): void | Promise<void> {
    if (message.kind === "request") return asked(peer, message, call, context);
    if (message.kind !== "notification") return events.message(message, undefined, context);
    if (isChangeNotification(message)) {
      // Others of our sessions hear of the same change.
      if (peer === pool.primary) listens.publish(message, context);
      return undefined;
    }
    if (message.method === "notifications/cancelled") {
      const target = metadataOf(message).related;
      if (target !== undefined) call?.cancelInputRequest(target.id);
      return undefined;
    }
    const isKnownThere = methodFacts(message.method)?.forms[newestModern] !== "absent";
    return isKnownThere ? call?.notify(message, context) : undefined;
  }

  function asked(
    peer: LegacySession,
    question: RequestMessage,
    call: BridgedCall | undefined,
    context: TransportContext,
  ): void | Promise<void> {
    if (question.method === "ping") {
      answer(peer, resultMessage(question.id, "{}"));
      return undefined;
    }
    if (call !== undefined && !call.isOver) return events.message(question, call.relatedExchange, context);
    const text = "clients of this revision can only be asked within a call, and which call asks is not known";
    const data = { origin: "gateway", code: "method_not_found" };
    answer(peer, errorMessage(question.id, { code: -32601, message: text, data }));
    return undefined;
  }

  function answer(peer: LegacySession, message: Message): void {
    peer.send(message).catch((error: unknown) => {
      events.error(GatewayError.from(error));
    });
  }

  return {
    get incarnation() {
      return pool.primary.incarnation;
    },
    upstreamSession: undefined,
    get isIdle() {
      return running.size === 0 && listens.size === 0;
    },
    get hasBackpressure() {
      return pool.primary.hasStreamPerCall;
    },
    request,
    send,
    listen: () => {
      // Modern clients listen by a request of their own.
    },
    close: async (reason) => {
      listens.endAll();
      calls.close();
      await pool.close(reason);
    },
  };
}
