import type { Exchange, SetTimer, TransportContext } from "../../core/exchange.ts";
import { noReply, type Reply } from "../../core/pipeline.ts";
import { errorMessage, resultMessage } from "../../core/reply.ts";
import { GatewayError } from "../../errors.ts";
import type { Message, RequestMessage } from "../../protocol/message.ts";
import type { FindingCode } from "../../protocol/diagnostics.ts";
import { metadataOf } from "../../protocol/metadata.ts";
import { methodFacts } from "../../protocol/methods.ts";
import { newestModern } from "../../protocol/revisions.ts";
import { type LinkEvents, untilCancelled, type UpstreamLink } from "../../transports/transport.ts";
import type { BridgedCall } from "./bridged-call.ts";
import { createCallRunner, toLegacyNotification } from "./call-runner.ts";
import { CompactRequest } from "./compact-request.ts";
import { createLegacySessionPool, type PoolLimits } from "./legacy-session-pool.ts";
import {
  bridgedDiscoverResult,
  LegacySession,
  type LegacySessionEvents,
  type OpenLegacyLink,
} from "./legacy-session.ts";
import { createListenSubscriptions, isChangeNotification, type SubscriptionLimits } from "./subscriptions.ts";
import type { SuspendedCalls } from "./suspended-calls.ts";

/** Bounds of one bridged scope. */
export interface ModernToLegacyLimits extends PoolLimits, SubscriptionLimits {
  /** How often one call may send the user to open URLs. */
  readonly urlRounds: number;
}

const defaultModernToLegacyLimits: ModernToLegacyLimits = {
  sessions: 4,
  waiting: 256,
  idleMs: 60_000,
  subscriptions: 1024,
  undelivered: 1024,
  urlRounds: 8,
};

export interface ModernToLegacyDeps {
  /** Opens a link to the server for one legacy session; may be called several times. */
  readonly openLegacy: OpenLegacyLink;
  readonly events: LinkEvents;
  /** Where calls wait for input; the route passes the server's requests to the same object. */
  readonly suspendedCalls: SuspendedCalls;
  readonly setTimer: SetTimer;
  readonly newId: () => string;
  /** How long the server may take to answer the gateway's own requests, such as `initialize`. */
  readonly gatewayRequestMs: number;
  readonly limits?: ModernToLegacyLimits;
}

/** The link of one scope. */
export interface ModernToLegacyLink extends UpstreamLink {
  /** Whether no call runs or is suspended and there are no subscriptions. */
  readonly isIdle: boolean;
}

/**
 * Makes a link that takes modern requests to a server that only speaks legacy revisions. It serves one principal and one
 * set of client capabilities, because a legacy session fixes both when it is opened.
 */
export function createModernToLegacyLink(deps: ModernToLegacyDeps): ModernToLegacyLink {
  const { openLegacy, events, suspendedCalls, setTimer, newId, gatewayRequestMs } = deps;
  const limits = deps.limits ?? defaultModernToLegacyLimits;
  const sessionDeps = { openLegacy, setTimer, gatewayRequestMs };
  const sessionEvents: LegacySessionEvents = {
    message: received,
    malformed: (bytes, reason, related, context) => events.malformed(bytes, reason, related, context),
    dropped: (why, message, context) => events.dropped?.(why, message, context),
    error: (error) => events.error(error),
    findCall: (session, key) => calls.find(session, key),
    closed: (session, error) => {
      // The next request opens a new session; only subscriptions cannot move to it.
      events.error(error);
      if (session === pool.primary) subscriptions.endAll();
    },
    renewed: (session) => {
      if (session === pool.primary) subscriptions.renew();
    },
  };
  const pool = createLegacySessionPool(limits, setTimer, () => new LegacySession(sessionDeps, sessionEvents));
  const subscriptions = createListenSubscriptions(pool.primary, events, limits);
  const calls = createCallRunner({ pool, events, newId, urlRounds: limits.urlRounds });

  const deliver: LinkEvents["message"] = (message, related, context) => events.message(message, related, context);

  function request(exchange: Exchange): Promise<Reply> {
    try {
      return dispatch(exchange);
    } catch (error) {
      return Promise.reject(GatewayError.from(error));
    }
  }

  function dispatch(exchange: Exchange): Promise<Reply> {
    const { message } = exchange;
    if (message.kind !== "request") throw new GatewayError("internal", "only requests have answers");
    if (message.method === "server/discover") return discover(exchange, message);
    if (message.method === "subscriptions/listen") return subscriptions.listen(exchange, message);
    const facts = methodFacts(message.method);
    // A method unknown to all revisions may be the server's own; one that the modern revision dropped is refused.
    if (facts !== undefined && facts.forms[newestModern] !== "core")
      throw new GatewayError("method_not_found", `${newestModern} has no method ${message.method}`);
    const resumed = facts?.inputRequired === true ? suspendedCalls.resume(exchange, message) : undefined;
    if (resumed !== undefined) return resumed;
    const call = suspendedCalls.createCall(deliver, message);
    const reply = call.start(exchange);
    calls.run(call);
    return reply;
  }

  async function discover(exchange: Exchange, message: RequestMessage): Promise<Reply> {
    const facts = await untilCancelled(exchange.cancellation, pool.primary.ready(exchange));
    return { message: resultMessage(message.id, bridgedDiscoverResult(facts)) };
  }

  async function send(exchange: Exchange): Promise<Reply> {
    const { message } = exchange;
    if (message.kind === "result" || message.kind === "error") {
      const call = suspendedCalls.callOf(exchange);
      if (call?.isOver === false) await calls.respond(call, message);
    } else if (message.kind === "notification" && methodFacts(message.method) === undefined) {
      // Notifications of modern clients mean nothing to a legacy server; those of extensions may.
      await pool.primary.forwardNotification(exchange, toLegacyNotification(message));
    }
    return noReply;
  }

  function received(
    session: LegacySession,
    message: Message,
    call: BridgedCall | undefined,
    context: TransportContext,
  ): void | Promise<void> {
    if (message.kind === "request") return receivedRequest(session, message, call, context);
    if (message.kind !== "notification") return events.message(message, undefined, context);
    if (isChangeNotification(message)) {
      // The other sessions report the same change.
      if (session === pool.primary) subscriptions.publish(message, context);
      return undefined;
    }
    const why = whyDropped(message, call);
    if (call === undefined || why !== undefined)
      return events.dropped?.(why ?? "notification.unheard", message, context);
    if (message.method !== "notifications/cancelled") return call.notify(message, context);
    const target = metadataOf(message).related;
    if (target !== undefined) call.cancelInputRequest(target.id);
    return undefined;
  }

  function receivedRequest(
    session: LegacySession,
    message: RequestMessage,
    call: BridgedCall | undefined,
    context: TransportContext,
  ): void | Promise<void> {
    if (message.method === "ping") {
      session.respond(resultMessage(message.id, "{}"));
      return undefined;
    }
    if (call !== undefined && !call.isOver)
      return events.message(CompactRequest.from(message), call.relatedExchange, context);
    const text = "clients of this revision accept requests only during a call, and this one belongs to no call";
    const data = { origin: "gateway", code: "method_not_found" };
    session.respond(errorMessage(message.id, { code: -32601, message: text, data }));
    return undefined;
  }

  return {
    get incarnation() {
      return pool.primary.incarnation;
    },
    upstreamSession: undefined,
    get isIdle() {
      return calls.size === 0 && subscriptions.size === 0;
    },
    get hasBackpressure() {
      return pool.primary.hasStreamPerCall;
    },
    request,
    send,
    listen: () => {
      // Modern clients send subscriptions/listen.
    },
    close: async (reason) => {
      subscriptions.endAll();
      calls.close();
      await pool.close(reason);
    },
  };
}

/** Why a notification of the server reaches no client. */
function whyDropped(message: Message, call: BridgedCall | undefined): FindingCode | undefined {
  const { method = "" } = message;
  const namesNothing = metadataOf(message).related === undefined;
  if (method === "notifications/cancelled") {
    if (namesNothing) return "cancel.malformed";
    return call === undefined ? "cancel.unknown" : undefined;
  }
  if (method === "notifications/progress" && namesNothing) return "progress.malformed";
  const isUnknown = call === undefined || methodFacts(method)?.forms[newestModern] === "absent";
  return isUnknown ? "notification.unheard" : undefined;
}
