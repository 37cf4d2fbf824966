import { GatewayError } from "../../errors.ts";
import { createExchange, timingOf } from "../../core/exchange.ts";
import { type Exchange, type TransportContext } from "../../core/exchange.ts";
import { compose, type Handler, noReply, type PipelineStep, type Reply } from "../../core/pipeline.ts";
import type { ServedRevisions } from "../../protocol/http/era.ts";
import type { Message } from "../../protocol/message.ts";
import { newestLegacy, newestModern, type Revision } from "../../protocol/revisions.ts";
import { errorReply } from "../../core/reply.ts";
import type { Session } from "../../sessions/session.ts";
import type { RouteTracing } from "../../telemetry/tracing.ts";
import type { LinkEvents, UpstreamLink } from "../../transports/transport.ts";
import { answerUpstream, askClient, type ClientSender } from "./server-requests.ts";
import type { GatewayContext } from "../context.ts";
import type { LinkScope } from "../upstream/links.ts";
import { needsParameterHeaders, type ToolHeaders, withParameterHeaders } from "./parameter-headers.ts";
import { createUpstreamBinding, type DrainOptions, isListening, type UpstreamBinding } from "./upstream-binding.ts";
import { createSessionMeter } from "./route-metrics.ts";
import { SessionStreams } from "./session-streams.ts";
import type { WireObserver } from "../wiring/wire-observer.ts";
import type { UpstreamHealth } from "../upstream/health.ts";
import type { OpenUpstream } from "../upstream/open-upstream.ts";

/** What of a route may be another after a reload. */
export interface ReloadableRouteDeps {
  readonly serving: ServedRevisions;
  /** Lower-case names of client headers that go upstream. */
  readonly forwardHeaders: readonly string[];
  readonly upstream: OpenUpstream;
  /** What is known of that upstream. */
  readonly health: UpstreamHealth;
  /** Everything that stands between the client and the upstream, outermost first. */
  readonly steps: readonly PipelineStep[];
  /** Whether a policy decides about messages, so that nothing may differ from what it saw. */
  readonly isGuarded: boolean;
}

/** What a route is made of. */
export interface RouteDeps extends ReloadableRouteDeps {
  readonly name: string;
  /** Hears what comes and goes on both sides. */
  readonly observer: WireObserver;
  /** What an answer waits for before its client gets it; left out, or undefined, where it waits for nothing. */
  readonly whenStored?: (() => Promise<void> | undefined) | undefined;
  /** Follows messages through the gateway; absent where nobody wants to know. */
  readonly tracing: RouteTracing | undefined;
}

/**
 * One upstream and the way there: everything that a message on this route passes. Whoever holds a route holds it for
 * as long as its name is configured: a reload changes what is in it, and the next message finds that.
 */
export interface Route {
  readonly name: string;
  readonly serving: ServedRevisions;
  /** What unsupported versions are told. */
  readonly supported: readonly Revision[];
  readonly forwardHeaders: ReadonlySet<string>;
  /** Takes a client's message through the pipeline to what it is answered with; a failure becomes an error of ours. */
  readonly answer: Handler;
  /** The link of a session, if it has one. */
  readonly linkOf: (session: Session) => UpstreamLink | undefined;
  /** What is known of header parameters; absent where the upstream compares them itself. */
  readonly toolHeaders: ToolHeaders | undefined;
  /** Where a session's messages to its client go. */
  readonly streamsOf: (session: Session) => SessionStreams;
  /** Prepares a new session: its streams end with it. */
  readonly registerSession: (session: Session) => void;
  /** Tells the client of a session something outside any request; one that has gone is not waited for. */
  readonly notify: (session: Session, message: Message) => void;
  /** Sends messages outside any request to a client that is a channel of its own, not an HTTP session. */
  readonly setClientSender: (session: Session, outlet: ClientSender) => void;
  /** Keeps the upstream as it is now from being let go; the answer gives it free. */
  readonly retainUpstream: () => () => void;
  /** Takes other parts for every message from now on; resolves when an upstream that was replaced has been let go. */
  readonly reconfigure: (parts: ReloadableRouteDeps, farewell: DrainOptions) => Promise<void>;
  /** Lets the upstream go with nothing in its place. */
  readonly drain: (farewell: DrainOptions) => Promise<void>;
  readonly close: (reason: string) => Promise<void>;
}

/** Builds a route: composes the pipeline once and joins it to the links upstream. */
export function createRoute(gateway: GatewayContext, options: RouteDeps): Route {
  const { registry, events, clock, newExchangeId, log } = gateway;
  const { name, observer: tap, whenStored: kept, tracing } = options;
  const streams = new WeakMap<Session, SessionStreams>();
  const outlets = new WeakMap<Session, ClientSender>();
  /** What a session began on it stays on: only that server knows it. With the link there, once it stays the same. */
  const begunOn = new WeakMap<Session, { readonly way: UpstreamBinding; readonly link: UpstreamLink | undefined }>();
  const passages = new Set<UpstreamBinding>();
  let serving = options.serving;
  let forwardHeaders: ReadonlySet<string> = new Set(options.forwardHeaders);
  let handle = pipelineOf(options);
  let { isGuarded } = options;
  let passage = passageTo(options);
  const meterSession = createSessionMeter(name, gateway.metrics);

  function pipelineOf({ steps }: ReloadableRouteDeps): Handler {
    return compose(steps, (exchange) =>
      exchange.direction === "client-to-server" ? toUpstream(exchange) : deliver(exchange),
    );
  }

  function passageTo({ upstream, health }: ReloadableRouteDeps): UpstreamBinding {
    const made = createUpstreamBinding(upstream, health, {
      eventsFor: upstreamEvents,
      ask: toUpstream,
      setTimer: gateway.setTimer,
    });
    passages.add(made);
    return made;
  }

  async function letGo(old: UpstreamBinding, farewell: DrainOptions): Promise<void> {
    await old.drain(farewell);
    passages.delete(old);
  }

  function streamsOf(session: Session): SessionStreams {
    let own = streams.get(session);
    if (own === undefined) {
      own = new SessionStreams(events, session.principal.id);
      streams.set(session, own);
    }
    return own;
  }

  function sessionOf(exchange: Exchange): Session | undefined {
    return registry.forContext(exchange.session);
  }

  /** Takes a message of a client to what it is answered with. */
  async function respond(exchange: Exchange): Promise<Reply> {
    tap.received("client", exchange.message, exchange);
    const session = exchange.message.kind === "request" && !isListening(exchange) ? sessionOf(exchange) : undefined;
    session?.inFlight.begin();
    let reply: Reply;
    try {
      reply = await handle(exchange);
    } catch (error) {
      const failure = failed(exchange, error);
      const isOver = exchange.session !== undefined && sessionOf(exchange) === undefined;
      // Its caller may still wait; a cancel alone would leave the request without an answer.
      reply = errorReply(exchange, failure.code === "cancelled" && isOver ? sessionEnded() : failure);
    } finally {
      session?.inFlight.end();
    }
    if (reply.message === undefined) return reply;
    tap.sent("client", reply.message, exchange);
    const keeping = kept?.();
    if (keeping === undefined) return reply;
    try {
      await keeping;
      return reply;
    } catch (error) {
      return errorReply(exchange, failed(exchange, error));
    }
  }

  /** The innermost step towards the upstream. */
  function toUpstream(exchange: Exchange): Promise<Reply> {
    const session = sessionOf(exchange);
    if (exchange.session !== undefined && session === undefined) return Promise.reject(sessionEnded());
    const begun = session === undefined ? undefined : begunOn.get(session);
    const way = begun?.way ?? passage;
    const link = begun?.link ?? way.linkFor(exchange, session);
    if (session !== undefined && begun?.link === undefined) begunOn.set(session, { way, link: link.resolvedLink });
    if (exchange.message.kind !== "request") {
      return tracing === undefined
        ? send(link, exchange, session)
        : tracing.send(exchange, way.upstream.destination, (own) => send(link, own, session));
    }
    return needsParameterHeaders(exchange, way.parameters, isGuarded)
      ? withParameterHeaders(exchange, way.parameters, isGuarded).then((fitting) => request(way, link, fitting))
      : request(way, link, exchange);
  }

  async function send(link: UpstreamLink, exchange: Exchange, session: Session | undefined): Promise<Reply> {
    tap.sent("upstream", exchange.message, exchange);
    const reply = await link.send(exchange);
    if (exchange.message.method === "notifications/initialized" && session !== undefined && outlets.has(session)) {
      // A client that is a channel can take messages at any time; HTTP clients open a stream when they want them.
      void link.listen();
    }
    return reply;
  }

  function request(way: UpstreamBinding, link: UpstreamLink, exchange: Exchange): Promise<Reply> {
    return tracing === undefined
      ? askUpstream(way, link, exchange)
      : tracing.send(exchange, way.upstream.destination, (own) => askUpstream(way, link, own));
  }

  function askUpstream(way: UpstreamBinding, link: UpstreamLink, exchange: Exchange): Promise<Reply> {
    tap.sent("upstream", exchange.message, exchange);
    way.begin(exchange);
    let asked: Promise<Reply>;
    try {
      asked = link.request(exchange);
    } catch (error) {
      asked = Promise.reject(GatewayError.from(error));
    }
    return asked.then(
      (reply) => {
        way.answered(exchange, reply);
        if (reply.message !== undefined) tap.received("upstream", reply.message, exchange);
        return reply;
      },
      (error: unknown) => {
        const failure = GatewayError.from(error);
        way.failed(exchange, failure);
        throw failure;
      },
    );
  }

  /** The innermost step towards the client. */
  async function toClient(exchange: Exchange): Promise<Reply> {
    const { message, parent } = exchange;
    const session = sessionOf(exchange);
    const outlet: ClientSender | undefined =
      parent?.reply === undefined
        ? session === undefined
          ? undefined
          : (outlets.get(session) ?? ((out) => streamsOf(session).general.write(out)))
        : (out) => parent.reply?.write(out);
    if (outlet === undefined) throw new GatewayError("cancelled", "there is no client to take the message");
    if (message.kind !== "request") {
      tap.sent("client", message, exchange);
      const written = outlet(message);
      // A client that is slow must not hold up a source that others share: its queue is bounded instead.
      if (exchange.isUnpaced === true) written?.catch(untaken);
      else await written;
      return noReply;
    }
    if (session === undefined) {
      // Modern clients take no requests: the call that asks is parked until its client comes back with the answer.
      const parked = gateway.parking.requestInput(exchange);
      if (parked !== undefined) return parked;
      throw new GatewayError("invalid_message", "clients of this revision take no requests from servers");
    }
    tap.sent("client", message, exchange);
    return askClient(tap, session, exchange, message, outlet);
  }

  function untaken(error: unknown): void {
    log.debug({ route: name, reason: GatewayError.from(error).message }, "the client could not be told");
  }

  function upstreamEvents(scope: LinkScope, link: () => UpstreamLink): LinkEvents {
    return {
      message: (message, related, context) => fromUpstream(scope, link(), message, related, context),
      malformed: (bytes, reason) => {
        log.warn({ route: name, bytes: bytes.length, reason }, "upstream sent something that is no message");
      },
      error: (error) => {
        log.debug({ route: name, code: error.code, reason: error.message }, "upstream could not be told");
      },
      closed: (error) => {
        log.info({ route: name, code: error.code, reason: error.message }, "upstream connection ended");
        scope.session?.end(error.message, "upstream");
      },
    };
  }

  /** Takes a message that the upstream sent of its own accord through the pipeline. */
  function fromUpstream(
    scope: LinkScope,
    link: UpstreamLink,
    message: Message,
    related: Exchange | undefined,
    transport: TransportContext,
  ): void | Promise<void> {
    if (message.kind === "result" || message.kind === "error") {
      log.debug({ route: name, id: message.id?.key }, "upstream answered something that nobody asked");
      return undefined;
    }
    const revision =
      related?.revision ?? scope.session?.revision ?? (scope.era === "modern" ? newestModern : newestLegacy);
    const exchange = createExchange({
      id: newExchangeId(),
      direction: "server-to-client",
      message,
      route: name,
      principal: related?.principal ?? scope.session?.principal ?? scope.principal,
      revision,
      session: scope.session,
      transport,
      timing: timingOf(clock),
      parent: related,
      ...(link.hasBackpressure ? {} : { isUnpaced: true }),
    });
    const outcome = takeIn(exchange);
    if (message.kind === "notification") {
      return outcome.then(
        () => {},
        (error: unknown) => {
          failed(exchange, error);
        },
      );
    }
    // The stream goes on while the client thinks about the question; the answer takes its own way back.
    answerUpstream(link, exchange, message, outcome, { observer: tap, failed });
    return undefined;
  }

  function failed(exchange: Exchange, error: unknown): GatewayError {
    return gateway.reportFailure(route, exchange, GatewayError.from(error));
  }

  function deliver(exchange: Exchange): Promise<Reply> {
    return tracing === undefined ? toClient(exchange) : tracing.send(exchange, undefined, toClient);
  }

  const arrived: Handler = (exchange) => {
    tap.received("upstream", exchange.message, exchange);
    return handle(exchange);
  };
  const takeIn = tracing === undefined ? arrived : tracing.received(arrived);

  const route: Route = {
    name,
    get serving() {
      return serving;
    },
    get supported() {
      return serving.supported;
    },
    get forwardHeaders() {
      return forwardHeaders;
    },
    answer: tracing === undefined ? respond : tracing.received(respond),
    linkOf: (session) => begunOn.get(session)?.way.links.of(session),
    get toolHeaders() {
      // Where a policy decides, headers are compared after it: a mismatch must not tell of tools that it hides.
      return isGuarded ? undefined : passage.toolHeaders;
    },
    streamsOf,
    registerSession: (session) => {
      meterSession(session);
      session.onEnd((_reason, ending) => {
        streams.get(session)?.close();
        tracing?.sessionEnded({
          revision: session.revision,
          durationMs: clock.now() - session.openedAt,
          failure: session.state === "failed" ? ending : undefined,
          upstream: session.upstreamId === undefined ? undefined : begunOn.get(session)?.way.upstream.destination,
        });
      });
    },
    notify: (session, message) => {
      const outlet = outlets.get(session);
      const written = outlet === undefined ? streamsOf(session).general.write(message) : outlet(message);
      written?.catch(untaken);
    },
    setClientSender: (session, outlet) => {
      outlets.set(session, outlet);
    },
    retainUpstream: () => passage.retain(),
    reconfigure: async (parts, farewell) => {
      const old = passage;
      serving = parts.serving;
      forwardHeaders = new Set(parts.forwardHeaders);
      handle = pipelineOf(parts);
      ({ isGuarded } = parts);
      if (parts.upstream === old.upstream) return;
      passage = passageTo(parts);
      await letGo(old, farewell);
    },
    drain: (farewell) => letGo(passage, farewell),
    close: async (reason) => {
      await Promise.all([...passages].map((each) => each.close(reason)));
    },
  };
  return route;
}

function sessionEnded(): GatewayError {
  return new GatewayError("session_unknown", "the session has ended; open a new one with initialize");
}
