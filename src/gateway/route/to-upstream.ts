import type { Exchange } from "../../core/exchange.ts";
import { type Handler, noReply, type Reply } from "../../core/pipeline.ts";
import { GatewayError } from "../../errors.ts";
import type { SessionRegistry } from "../../sessions/registry.ts";
import { clientHandshakeOf } from "../../sessions/session-record.ts";
import type { Session } from "../../sessions/session.ts";
import type { Destination, RouteTracing } from "../../telemetry/trace-context.ts";
import type { UpstreamLink } from "../../transports/transport.ts";
import type { RestorableSession } from "../upstream/restored-link.ts";
import type { WireObserver } from "../wiring/wire-observer.ts";
import { needsParameterHeaders, withParameterHeaders } from "./parameter-headers.ts";
import type { UpstreamBinding } from "./upstream-binding.ts";

/** What a route sends to. A reload replaces it. */
export interface RouteUpstream {
  readonly binding: UpstreamBinding;
  /** Whether a policy decides about messages, so that headers must match what it saw. */
  readonly isGuarded: boolean;
}

export interface ToUpstreamDeps {
  readonly registry: SessionRegistry;
  readonly observer: WireObserver;
  /** What a message must wait for before it is sent, if nothing may be sent unrecorded. */
  readonly whenStored: (() => Promise<void> | undefined) | undefined;
  readonly tracing: RouteTracing | undefined;
  readonly target: () => RouteUpstream;
  /** Whether a session's client takes messages at any time, without opening a stream for them. */
  readonly isAlwaysListening: (session: Session) => boolean;
}

/** The innermost handler towards the upstream. */
export interface ToUpstream {
  readonly handle: Handler;
  /** Continues a session that began in another process. */
  restore(restorable: RestorableSession): void;
  /** The binding that a session started on. */
  bindingOf(session: Session): UpstreamBinding | undefined;
}

const startedOn = Symbol("upstream");

/** A session stays on the upstream it started on. The link is kept once it no longer changes. */
interface StartedSession extends Session {
  [startedOn]?: { readonly binding: UpstreamBinding; readonly link: UpstreamLink | undefined };
}

/** Creates the handler that sends messages to the upstream: the last one of the pipeline. */
export function createToUpstream(deps: ToUpstreamDeps): ToUpstream {
  const { registry, observer, whenStored, tracing, target } = deps;

  function toUpstream(exchange: Exchange): Promise<Reply> {
    const session: StartedSession | undefined = registry.forContext(exchange.session);
    if (exchange.session !== undefined && session === undefined) return Promise.reject(sessionEnded());
    const started = session?.[startedOn];
    const { binding: current, isGuarded } = target();
    const binding = started?.binding ?? current;
    let link = started?.link;
    if (link === undefined) {
      const opened = binding.linkFor(exchange, session);
      link = opened.resolvedLink ?? opened;
      if (session !== undefined) {
        session[startedOn] = { binding, link: opened.resolvedLink };
        if (exchange.message.method === "initialize") session.handshake = clientHandshakeOf(exchange.message);
      }
    }
    if (exchange.message.kind !== "request") return send(binding, link, exchange, session);
    const { parameters } = binding;
    if (!needsParameterHeaders(exchange, parameters, isGuarded)) return request(binding, link, exchange);
    const chosen = link;
    return withParameterHeaders(exchange, parameters, isGuarded).then((fitting) => request(binding, chosen, fitting));
  }

  function send(
    binding: UpstreamBinding,
    link: UpstreamLink,
    exchange: Exchange,
    session: Session | undefined,
  ): Promise<Reply> {
    return tracing === undefined
      ? sendOver(link, exchange, session)
      : tracing.send(exchange, destinationOf(binding, exchange), (traced) => sendOver(link, traced, session));
  }

  async function sendOver(link: UpstreamLink, exchange: Exchange, session: Session | undefined): Promise<Reply> {
    const { message } = exchange;
    if (isCancelWithoutCall(exchange)) return noReply;
    observer.sent("upstream", message, exchange);
    const stored = whenStored?.();
    if (stored !== undefined) await stored;
    const reply = await link.send(exchange);
    const isInitialized = message.method === "notifications/initialized" && session !== undefined;
    if (isInitialized && deps.isAlwaysListening(session)) void link.listen();
    return reply;
  }

  function request(binding: UpstreamBinding, link: UpstreamLink, exchange: Exchange): Promise<Reply> {
    return tracing === undefined
      ? requestOver(binding, link, exchange)
      : tracing.send(exchange, destinationOf(binding, exchange), (traced) => requestOver(binding, link, traced));
  }

  function requestOver(binding: UpstreamBinding, link: UpstreamLink, exchange: Exchange): Promise<Reply> {
    observer.sent("upstream", exchange.message, exchange);
    binding.begin(exchange);
    const stored = whenStored?.();
    let answer: Promise<Reply>;
    try {
      answer =
        stored === undefined ? link.request(exchange) : stored.then(() => requestUnlessCancelled(link, exchange));
    } catch (error) {
      answer = Promise.reject(GatewayError.from(error));
    }
    return answer.then(
      (reply) => {
        binding.answered(exchange, reply);
        if (reply.message !== undefined) observer.received("upstream", reply.message, exchange);
        return reply;
      },
      (error: unknown) => {
        const failure = GatewayError.from(error);
        binding.failed(exchange, failure);
        throw failure;
      },
    );
  }

  function restore(restorable: RestorableSession): void {
    const { binding } = target();
    const session: StartedSession = restorable.session;
    try {
      binding.restore(restorable);
    } catch (error) {
      const failure = GatewayError.from(error);
      // There is no capacity for it now, but it has not ended.
      session.end(failure.message, "shutdown");
      throw failure;
    }
    session[startedOn] = { binding, link: undefined };
  }

  return { handle: toUpstream, restore, bindingOf: (session: StartedSession) => session[startedOn]?.binding };
}

/**
 * Modern clients cancel over HTTP by closing the response (MCP 2026-07-28, Cancellation), and those on a channel were heard
 * there. What is left names an id that means nothing upstream, or another client's call: ids are rewritten where servers are shared.
 */
function isCancelWithoutCall({ era, message }: Exchange): boolean {
  return era === "modern" && message.method === "notifications/cancelled";
}

/** Where a message is sent, for its span: to one of several servers where it is about one. */
function destinationOf({ upstream }: UpstreamBinding, { tracking }: Exchange): Destination {
  const member = tracking.upstream?.member;
  const own = member === undefined ? undefined : upstream.memberDestination?.(member);
  return own ?? upstream.destination;
}

/** It may have been cancelled while it waited. */
function requestUnlessCancelled(link: UpstreamLink, exchange: Exchange): Promise<Reply> {
  const { reason } = exchange.cancellation;
  if (reason === undefined) return link.request(exchange);
  return Promise.reject(new GatewayError("cancelled", `the request was given up before it was sent (${reason})`));
}

/** The error for a message whose session has ended in the meantime. */
export function sessionEnded(): GatewayError {
  return new GatewayError("session_unknown", "the session has ended; open a new one with initialize");
}
