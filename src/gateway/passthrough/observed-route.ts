import type { IncomingMessage, ServerResponse } from "node:http";

import { createExchange, timingOf } from "../../core/exchange.ts";
import {
  type Clock,
  type Exchange,
  type Principal,
  type SessionContext,
  type SetTimer,
  type TransportContext,
} from "../../core/exchange.ts";
import type { Message, ParseLimits } from "../../protocol/message.ts";
import { createCorrelator } from "../../sessions/pending/correlator.ts";
import { defaultTtl } from "../../sessions/pending/method-rules.ts";
import { defaultCorrelationLimits } from "../../sessions/pending/limits.ts";
import type { Logger } from "../../telemetry/log.ts";
import type { GatewayContext } from "../context.ts";
import type { HttpEndpoint } from "../../transports/streamable-http/endpoint.ts";
import { createPassThrough } from "./pass-through.ts";
import type { WireObserver } from "../wiring/wire-observer.ts";
import { createObservedValidation } from "./observed-validation.ts";
import { createTrafficObserver } from "./traffic-observer.ts";
import type { ValidationSettings } from "../../protocol/validation/validate.ts";
import { type Revision } from "../../protocol/revisions.ts";

/** What observing needs of the gateway. */
export interface ObservedRouteDeps {
  readonly limits: ParseLimits;
  readonly validation: ValidationSettings;
  readonly log: Logger;
  readonly clock: Clock;
  readonly setTimer: SetTimer;
  /** Counts messages, and records them where configured. */
  readonly observer: WireObserver;
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
  close(): void;
}

/** Creates a route in observe mode: nothing is refused, changed or delayed. */
export function createObservedRoute(
  name: string,
  upstream: HttpEndpoint,
  { limits, validation, log, clock, setTimer, observer: wireObserver, newLabel }: ObservedRouteDeps,
): ObservedRoute {
  const correlator = createCorrelator<undefined>({
    clock,
    setTimer,
    mode: "observe",
    limits: defaultCorrelationLimits,
    ttl: defaultTtl,
  });
  const observer = createTrafficObserver({
    route: name,
    limits,
    findingsIn: createObservedValidation(validation),
    correlator,
    log,
    exchanges: createObservedExchanges({ route: name, observer: wireObserver, clock, newLabel }),
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
    close: () => {
      correlator.close();
    },
  };
}

export interface ObservedExchangesDeps {
  readonly route: string;
  readonly observer: WireObserver;
  readonly clock: Clock;
  readonly newLabel: GatewayContext["newLabel"];
}

/** The messages of one HTTP request and its response, as they pass. */
export interface ObservedMessages {
  fromClient(message: Message): void;
  fromUpstream(message: Message): void;
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
 * counted and recorded like all others.
 */
function createObservedExchanges(options: ObservedExchangesDeps): (call: ObservedCall) => ObservedMessages {
  const { route, observer: wireObserver, clock, newLabel } = options;
  const open = new Map<string, Exchange>();
  let requestCount = 0;

  function remember(key: string, exchange: Exchange): void {
    const [oldest] = open.size < mostOpen ? [] : open.keys();
    if (oldest !== undefined) open.delete(oldest);
    open.set(key, exchange);
  }

  return ({ request, principal, revision }) => {
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

    /** The exchange that a message belongs to; undefined for an answer to an unseen request. */
    function exchangeOf(
      from: Exchange["direction"],
      message: Message,
      parent: Exchange | undefined,
    ): Exchange | undefined {
      if (message.kind !== "result" && message.kind !== "error") return begin(from, message, parent);
      const key = keyOf(from === "client-to-server" ? "server-to-client" : "client-to-server", message);
      const asked = open.get(key);
      open.delete(key);
      return asked;
    }

    return {
      fromClient: (message) => {
        const exchange = exchangeOf("client-to-server", message, undefined);
        if (exchange === undefined) return;
        if (message.kind === "request") {
          requests += 1;
          asking = requests === 1 ? exchange : undefined;
        }
        wireObserver.received("client", message, exchange);
        wireObserver.sent("upstream", message, exchange);
      },
      fromUpstream: (message) => {
        const exchange = exchangeOf("server-to-client", message, asking);
        if (exchange === undefined) return;
        wireObserver.received("upstream", message, exchange);
        wireObserver.sent("client", message, exchange);
      },
      closed: () => {
        if (id === undefined) for (const key of own) open.delete(key);
      },
    };
  };
}
