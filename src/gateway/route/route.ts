import type { Exchange } from "../../core/exchange.ts";
import { compose, type Handler, type PipelineStep, type Reply } from "../../core/pipeline.ts";
import { errorReply } from "../../core/reply.ts";
import { GatewayError } from "../../errors.ts";
import type { MaybePromise } from "../../lib/is-promise.ts";
import type { ServedRevisions } from "../../protocol/http/era.ts";
import type { Message } from "../../protocol/message.ts";
import type { Session, SessionEndCause } from "../../sessions/session.ts";
import type { EndedSession, RouteTracing } from "../../telemetry/trace-context.ts";
import type { SseResponseOptions } from "../../transports/http/sse-response.ts";
import { cancelledError } from "../../transports/transport.ts";
import type { GatewayContext } from "../context.ts";
import type { UpstreamHealth } from "../upstream/http-upstream.ts";
import type { OpenUpstream } from "../upstream/open-upstream.ts";
import type { RestorableSession } from "../upstream/restored-link.ts";
import type { WireObserver } from "../wiring/wire-observer.ts";
import { createFromUpstream } from "./from-upstream.ts";
import type { ToolHeaders } from "./parameter-headers.ts";
import { createSessionMeter } from "./guards/route-metrics.ts";
import { createStreamOptions, type SessionStreams } from "./session-streams.ts";
import { type ClientSender, createToClient } from "./to-client.ts";
import { createToUpstream, sessionEnded } from "./to-upstream.ts";
import { createUpstreamBinding, type DrainOptions, isListening, type UpstreamBinding } from "./upstream-binding.ts";

/** What a reload may change about a route. */
export interface ReloadableRouteDeps {
  readonly serving: ServedRevisions;
  /** Lower-case names of client headers that go upstream. */
  readonly forwardHeaders: readonly string[];
  /** Silence on an open event stream after which a comment is sent. */
  readonly keepAliveMs: number;
  /** How long the upstream may take to answer requests of the gateway's own. */
  readonly quickMs: number;
  readonly upstream: OpenUpstream;
  readonly health: UpstreamHealth;
  /** The pipeline between client and upstream, outermost step first. */
  readonly steps: readonly PipelineStep[];
  /** Whether a policy decides about messages, so that nothing may differ from what it saw. */
  readonly isGuarded: boolean;
}

/** What a route is made from. */
export interface RouteDeps extends ReloadableRouteDeps {
  readonly name: string;
  /** Sees every message on both sides. */
  readonly observer: WireObserver;
  /** Records and reports a response, from either side, that answers no request. */
  readonly strayResponse: (exchange: Exchange) => void;
  /** What an answer waits for before the client gets it, such as being recorded. */
  readonly whenStored?: (() => Promise<void> | undefined) | undefined;
  readonly tracing: RouteTracing | undefined;
  /** The server of a session was started again after a restart of the gateway, so its lists may differ. */
  readonly onBegunAnew: (session: Session) => void;
}

/**
 * One upstream and everything that a message passes through on its way there. A route lives as long as its name is configured:
 * a reload changes what is in it, and the next message uses that.
 */
export interface Route {
  readonly name: string;
  readonly serving: ServedRevisions;
  readonly forwardHeaders: ReadonlySet<string>;
  /** Takes a client's message through the pipeline to its answer; failures become error answers. */
  readonly answer: Handler;
  /** Reports and records a response of the client that answers no request. */
  readonly strayResponse: (exchange: Exchange) => void;
  /** What is known about header parameters; absent if the upstream compares them itself. */
  readonly toolHeaders: ToolHeaders | undefined;
  /** How event streams to clients are written. */
  readonly streamOptions: SseResponseOptions;
  /** The streams of a session over Streamable HTTP. */
  readonly streamsOf: (session: Session) => SessionStreams;
  /** Prepares a new session: it is counted, and its streams end with it. */
  readonly registerSession: (session: Session) => void;
  /** Where messages are sent now. */
  readonly upstream: () => Pick<OpenUpstream, "federation" | "holdsSessions" | "sharedServer">;
  /** Prepares a session that began in another process. */
  readonly restoreSession: (restorable: RestorableSession) => void;
  /** Sends the messages of a session through a channel instead of streams. */
  readonly setClientSender: (session: Session, sender: ClientSender) => void;
  /** Called when the client of a session starts to listen: opens the upstream's stream for messages outside requests. */
  readonly listen: (session: Session) => void;
  /** Sends a message to the client of a session, outside any request, without waiting for it. */
  readonly notify: (session: Session, message: Message) => void;
  /** Keeps the present upstream open until the returned function is called. */
  readonly retainUpstream: () => () => void;
  /** Uses new parts, starting with the next message; resolves once a replaced upstream has been drained. */
  readonly reconfigure: (parts: ReloadableRouteDeps, drain: DrainOptions) => Promise<void>;
  /** Drains the upstream without a replacement. */
  readonly drain: (options: DrainOptions) => Promise<void>;
  readonly close: (reason: string) => Promise<void>;
}

/** What changes with a reload. */
interface ActiveRoute extends ReloadableRouteDeps {
  readonly binding: UpstreamBinding;
  readonly headers: ReadonlySet<string>;
  readonly toServer: Handler;
  readonly toClient: Handler;
}

/** Creates a route: composes its pipeline and connects it to the upstream. */
export function createRoute(gateway: GatewayContext, deps: RouteDeps): Route {
  const { registry, clock } = gateway;
  // Destructured here: a closure over `deps` would retain the first configuration for as long as the route lives.
  const { name, observer, whenStored, tracing, onBegunAnew } = deps;
  const bindings = new Set<UpstreamBinding>();
  const streamOptions = createStreamOptions(gateway, name, deps.keepAliveMs);
  const meterSession = createSessionMeter(name, gateway.metrics);
  const client = createToClient(gateway, { route: name, observer, whenStored, tracing });
  const upstream = createToUpstream({
    registry,
    observer,
    whenStored,
    tracing,
    target: () => active,
    isAlwaysListening: client.hasClientSender,
  });
  const answer = createAnswer(gateway, { observer, whenStored }, () => active.toServer);
  const pipeline = (): Handler => active.toClient;
  const eventsFor = createFromUpstream(gateway, { ...deps, whenStored, route: name, pipeline });
  let active = activate(deps, bind(deps));

  function bind({ upstream: opened, health }: ReloadableRouteDeps): UpstreamBinding {
    const binding = createUpstreamBinding(opened, health, {
      eventsFor,
      quickMs: () => active.quickMs,
      ask: (exchange) => upstream.handle({ ...exchange, id: gateway.newLabel(exchange.session, exchange.message) }),
      clock,
      setTimer: gateway.setTimer,
      newId: gateway.newId,
      onBegunAnew,
    });
    bindings.add(binding);
    return binding;
  }

  function activate(parts: ReloadableRouteDeps, binding: UpstreamBinding): ActiveRoute {
    return {
      ...parts,
      binding,
      headers: new Set(parts.forwardHeaders),
      toServer: compose(parts.steps, upstream.handle),
      toClient: compose(parts.steps, client.handle),
    };
  }

  async function drain(binding: UpstreamBinding, options: DrainOptions): Promise<void> {
    await binding.drain(options);
    bindings.delete(binding);
  }

  function registerSession(session: Session): void {
    meterSession(session);
    session.onEnd((_reason, cause) => {
      client.end(session);
      tracing?.sessionEnded(endOf(session, cause, clock.now(), upstream.bindingOf(session)));
    });
  }

  return {
    name,
    get serving() {
      return active.serving;
    },
    get forwardHeaders() {
      return active.headers;
    },
    answer: tracing === undefined ? answer : tracing.received(answer),
    get toolHeaders() {
      // Where a policy decides, headers are compared after it: a mismatch must not reveal hidden tools.
      return active.isGuarded ? undefined : active.binding.toolHeaders;
    },
    strayResponse: deps.strayResponse,
    upstream: () => active.upstream,
    streamOptions,
    streamsOf: client.streamsOf,
    registerSession,
    restoreSession: (restorable) => {
      registerSession(restorable.session);
      upstream.restore(restorable);
    },
    setClientSender: client.setClientSender,
    listen: (session) => {
      void upstream.bindingOf(session)?.links.of(session)?.listen();
    },
    notify: client.notify,
    retainUpstream: () => active.binding.retain(),
    reconfigure: async (parts, options) => {
      const old = active.binding;
      const isSame = parts.upstream === old.upstream;
      active = activate(parts, isSame ? old : bind(parts));
      streamOptions.keepAlive.setInterval(parts.keepAliveMs);
      if (!isSame) await drain(old, options);
    },
    drain: (options) => drain(active.binding, options),
    close: async (reason) => {
      await Promise.all([...bindings].map((each) => each.close(reason)));
      streamOptions.keepAlive.close();
    },
  };
}

/**
 * Creates the handler that takes client messages through the pipeline: it records what arrives and what is returned, and turns
 * failures into error answers.
 */
function createAnswer(
  { registry, reportFailure }: GatewayContext,
  { observer, whenStored }: Pick<RouteDeps, "observer" | "whenStored">,
  toServer: () => Handler,
): Handler {
  /** Records an answer before its client gets it. */
  function record(exchange: Exchange, reply: Reply): MaybePromise<Reply> {
    if (reply.message === undefined) return reply;
    observer.sent("client", reply.message, exchange);
    const stored = whenStored?.();
    if (stored === undefined) return reply;
    return stored.then(
      () => reply,
      (error: unknown) => failureReply(exchange, error),
    );
  }

  function failureReply(exchange: Exchange, error: unknown): Reply {
    const failure = reportFailure(exchange, failureOf(exchange, error));
    const isOver = exchange.session !== undefined && registry.forContext(exchange.session) === undefined;
    // The caller may still wait, and "cancelled" alone would leave its request unanswered.
    return errorReply(exchange, failure.code === "cancelled" && isOver ? sessionEnded() : failure);
  }

  return function answer(exchange) {
    observer.received("client", exchange.message, exchange);
    const isCounted = exchange.message.kind === "request" && !isListening(exchange);
    const session = isCounted ? registry.forContext(exchange.session) : undefined;
    session?.inFlight.begin();
    return toServer()(exchange).then(
      (reply) => {
        session?.inFlight.end();
        return record(exchange, reply);
      },
      (error: unknown) => {
        session?.inFlight.end();
        return record(exchange, failureReply(exchange, error));
      },
    );
  };
}

/** The reason for the end of a session, for traces. */
function endOf(
  { revision, openedAt, state, upstreamId }: Session,
  cause: SessionEndCause,
  now: number,
  binding: UpstreamBinding | undefined,
): EndedSession {
  return {
    revision,
    durationMs: now - openedAt,
    failure: state === "failed" ? cause : undefined,
    upstream: upstreamId === undefined ? undefined : binding?.upstream.destination,
  };
}

/** Why an exchange failed. If the shutdown cancelled it, its caller still waits for an error. */
function failureOf({ cancellation: { reason } }: Exchange, error: unknown): GatewayError {
  const failure = GatewayError.from(error);
  return failure.code === "cancelled" && reason === "shutdown" ? cancelledError(reason) : failure;
}
