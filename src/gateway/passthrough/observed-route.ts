import type { IncomingMessage, ServerResponse } from "node:http";

import { createExchange, timingOf } from "../../core/exchange.ts";
import {
  type Clock,
  type Exchange,
  type MessageOrigin,
  type Principal,
  type SessionContext,
  type SetTimer,
  type TransportContext,
} from "../../core/exchange.ts";
import type { Message, ParseLimits } from "../../protocol/message.ts";
import { createCorrelator } from "../../sessions/pending/correlator.ts";
import type { CorrelationOptions } from "../../sessions/pending/limits.ts";
import type { Logger } from "../../telemetry/log.ts";
import type { GatewayContext } from "../context.ts";
import type { HttpEndpoint } from "../../transports/streamable-http/endpoint.ts";
import { type ErrorCode, GatewayError } from "../../errors.ts";
import type { Guard } from "../../core/pipeline.ts";
import type { CorrelationState } from "../../sessions/pending/states.ts";
import type { GatewayRecording } from "../wiring/recording.ts";
import { createPassThrough } from "./pass-through.ts";
import type { Leg, WireObserver } from "../wiring/wire-observer.ts";
import { createObservedValidation } from "./observed-validation.ts";
import { createTrafficObserver } from "./traffic-observer.ts";
import type { ValidationSettings } from "../../protocol/validation/validate.ts";
import { type Revision } from "../../protocol/revisions.ts";

/** What observing needs of the gateway. */
export interface ObservedRouteDeps {
  readonly limits: ParseLimits;
  readonly correlation: CorrelationOptions;
  readonly validation: ValidationSettings;
  readonly log: Logger;
  readonly clock: Clock;
  readonly setTimer: SetTimer;
  /** Counts messages, and records them where configured. */
  readonly observer: WireObserver;
  /** Counts and logs how exchanges end. */
  readonly exchangeLog: Guard;
  /** Records that a request got no answer. */
  readonly onUnanswered: GatewayRecording["onUnanswered"] | undefined;
  readonly newLabel: GatewayContext["newLabel"];
}

/** The caller of a request that is passed through. */
export interface PassThroughCaller {
  readonly principal: Principal;
  /** Lower-case names of headers that are not forwarded. */
  readonly credentialHeaders: ReadonlySet<string>;
  /** Keeps the upstream open until the returned function is called. */
  readonly retainUpstream: () => () => void;
}

/** Passes one HTTP request through. */
export type PassThroughHandler = (
  request: IncomingMessage,
  response: ServerResponse,
  caller: PassThroughCaller,
) => Promise<void>;

/** A route in observe mode. */
export interface ObservedRoute {
  readonly handle: PassThroughHandler;
  /** Applies other limits and timeouts to requests seen from now on. */
  configure(correlation: CorrelationOptions): void;
  close(): void;
}

/** Creates a route in observe mode: nothing is refused, changed or delayed. */
export function createObservedRoute(name: string, upstream: HttpEndpoint, deps: ObservedRouteDeps): ObservedRoute {
  const { limits, correlation, validation, log, clock, setTimer, observer: wireObserver } = deps;
  const exchanges = createObservedExchanges(name, deps);
  const correlator = createCorrelator<Exchange>({
    ...observing(correlation),
    clock,
    setTimer,
    mode: "observe",
    onDiagnostic: (diagnostic, about) => {
      const exchange = about?.payload ?? observer.current;
      if (exchange !== undefined) wireObserver.found(diagnostic, exchange);
    },
    onFinished: ({ payload, state }) => {
      const code = state === "abandoned" ? observer.closing : endCodes[state];
      if (payload !== undefined && code !== undefined) exchanges.unanswered(payload, code);
    },
  });
  const observer = createTrafficObserver({
    route: name,
    limits,
    findingsIn: createObservedValidation(validation),
    correlator,
    onFound: (diagnostic, about) => {
      wireObserver.found(diagnostic, about);
    },
    exchanges: (call) => exchanges.open(call),
  });
  const pass = createPassThrough(
    upstream,
    observer,
    (error) => {
      log.error({ route: name, reason: String(error) }, "observer failed; traffic is not affected");
    },
    (error) => {
      log.warn({ route: name, reason: error.message }, "cannot reach the upstream");
    },
  );
  return {
    handle: async (request, response, { principal, credentialHeaders, retainUpstream }) => {
      const release = retainUpstream();
      try {
        await pass(request, response, credentialHeaders, principal);
      } finally {
        release();
      }
    },
    configure: (options) => {
      correlator.configure(observing(options));
    },
    close: () => {
      correlator.close();
    },
  };
}

/** No caller is refused for having too many requests open: the oldest of all is dropped instead. */
function observing({ limits, ttl }: CorrelationOptions): CorrelationOptions {
  return { limits: { ...limits, perOwner: Infinity }, ttl };
}

/** Why a request gets no answer, by its final state. Requests abandoned when the gateway stops have no reason. */
const endCodes: Readonly<Partial<Record<CorrelationState, ErrorCode>>> = {
  cancelled: "cancelled",
  // Its sender reused the id for another request.
  superseded: "cancelled",
  timed_out: "upstream_timeout",
  // The gateway no longer follows it.
  evicted: "internal",
};

type ObservedExchangesDeps = Pick<
  ObservedRouteDeps,
  "observer" | "exchangeLog" | "onUnanswered" | "clock" | "newLabel"
>;

/** Reports traffic as exchanges. */
interface ObservedExchanges {
  open(call: ObservedCall): ObservedMessages;
  /** A request gets no answer any more. */
  unanswered(exchange: Exchange, code: ErrorCode): void;
}

/** The messages of one HTTP request and its response, as they pass. */
export interface ObservedMessages {
  /** Counts and records a message; returns its exchange, which for an answer is that of its request. */
  fromClient(message: Message): Exchange;
  fromUpstream(message: Message): Exchange;
  /** All findings about a message are known; it was forwarded to this side. */
  done(leg: Leg, message: Message, exchange: Exchange): void;
  /** Records bytes that hold no valid message; returns what they belong to. */
  raw(leg: Leg, bytes: Buffer): MessageOrigin;
  /** The response has ended. */
  closed(): void;
}

/** The caller and revision of a request. */
export interface ObservedCall {
  readonly request: IncomingMessage;
  readonly principal: Principal;
  readonly revision: Revision;
}

/** Requests of either side that may still be answered, also on another connection; the oldest is dropped first. */
const mostOpen = 10_000;

/**
 * Reports traffic that passes through as exchanges, like traffic that the gateway terminates, so that observed routes are
 * counted, logged and recorded like all others.
 */
function createObservedExchanges(
  route: string,
  { observer: wireObserver, exchangeLog, onUnanswered, clock, newLabel }: ObservedExchangesDeps,
): ObservedExchanges {
  const open = new Map<string, Exchange>();
  const keys = new WeakMap<Exchange, string>();
  let requestCount = 0;

  function remember(key: string, exchange: Exchange): void {
    const [oldest] = open.size < mostOpen ? [] : open.keys();
    if (oldest !== undefined) open.delete(oldest);
    open.set(key, exchange);
    keys.set(exchange, key);
  }

  function unanswered(exchange: Exchange, code: ErrorCode): void {
    const key = keys.get(exchange);
    if (key !== undefined && open.get(key) === exchange) open.delete(key);
    onUnanswered?.(exchange, code);
    exchangeLog.failed(exchange, new GatewayError(code, "no answer was seen"));
  }

  function openCall({ request, principal, revision }: ObservedCall): ObservedMessages {
    requestCount += 1;
    const named = request.headers["mcp-session-id"];
    const id = typeof named === "string" ? named : undefined;
    const session: SessionContext | undefined =
      id === undefined ? undefined : { id, label: id.slice(0, 8), upstreamId: id };
    // Without a session, an answer comes on the same connection; with one, only its own principal can answer.
    const scope = id === undefined ? `request ${requestCount}` : `session ${principal.id} ${id}`;
    const own = new Set<string>();
    /** The request that everything on the stream belongs to; undefined where there are several. */
    let asking: Exchange | undefined;
    let requests = 0;
    const transport: TransportContext = {
      type: "http",
      method: request.method ?? "",
      path: request.url ?? "",
      headers: {},
    };

    function keyOf(direction: Exchange["direction"], message: Message): string {
      return `${direction} ${scope} ${message.id?.key ?? ""}`;
    }

    function originOf(leg: Leg): MessageOrigin {
      const direction = leg === "client" ? "client-to-server" : "server-to-client";
      const tracking = { entry: undefined };
      return {
        id: newLabel(session),
        direction,
        route,
        principal,
        session,
        revision,
        transport,
        parent: undefined,
        tracking,
      };
    }

    function begin(direction: Exchange["direction"], message: Message, parent: Exchange | undefined): Exchange {
      const exchange = createExchange({
        id: newLabel(session, message),
        direction,
        message,
        route,
        principal,
        revision,
        session,
        transport,
        timing: timingOf(clock),
        parent,
      });
      if (message.kind === "request") {
        const key = keyOf(direction, message);
        own.add(key);
        remember(key, exchange);
      }
      return exchange;
    }

    /** The exchange of the request that an answer belongs to; undefined where it was not seen, or answered before. */
    function takeAsked(from: Exchange["direction"], message: Message): Exchange | undefined {
      const key = keyOf(from === "client-to-server" ? "server-to-client" : "client-to-server", message);
      const asked = open.get(key);
      open.delete(key);
      return asked;
    }

    function passed(from: Exchange["direction"], message: Message, parent: Exchange | undefined): Exchange {
      const exchange = (isAnswer(message) ? takeAsked(from, message) : undefined) ?? begin(from, message, parent);
      wireObserver.received(from === "client-to-server" ? "client" : "upstream", message, exchange);
      return exchange;
    }

    return {
      fromClient: (message) => {
        const exchange = passed("client-to-server", message, undefined);
        if (message.kind === "request") {
          requests += 1;
          asking = requests === 1 ? exchange : undefined;
        }
        return exchange;
      },
      fromUpstream: (message) => passed("server-to-client", message, asking),
      done: (leg, message, exchange) => {
        // An answer without a request becomes an exchange, which ends with the findings about it.
        if (isAnswer(message) && exchange.message === message) return;
        wireObserver.sent(leg, message, exchange);
        if (message.kind === "notification") exchangeLog.answered(exchange, { message: undefined });
        else if (message.kind !== "request") exchangeLog.answered(exchange, { message });
      },
      raw: (leg, bytes) => {
        const origin = leg === "upstream" && asking !== undefined ? asking : originOf(leg);
        wireObserver.receivedRaw(leg, bytes, origin);
        return origin;
      },
      closed: () => {
        if (id === undefined) for (const key of own) open.delete(key);
      },
    };
  }

  return { open: openCall, unanswered };
}

function isAnswer({ kind }: Message): boolean {
  return kind === "result" || kind === "error";
}
