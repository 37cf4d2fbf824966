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
import type { HttpEndpoint } from "../../transports/streamable-http/endpoint.ts";
import { createPassThrough } from "./pass-through.ts";
import type { WireObserver } from "../wiring/wire-observer.ts";
import { createTrafficObserver } from "./traffic-observer.ts";
import { type Revision } from "../../protocol/revisions.ts";

/** What watching needs of the gateway. */
export interface ObservedRouteDeps {
  readonly limits: ParseLimits;
  readonly log: Logger;
  readonly clock: Clock;
  readonly setTimer: SetTimer;
  /** Counts what passes, and records it where that is wanted. */
  readonly observer: WireObserver;
  readonly newExchangeId: () => string;
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

/** A route that only watches: nothing is refused, changed or held up. */
export function createObservedRoute(
  name: string,
  upstream: HttpEndpoint,
  { limits, log, clock, setTimer, observer: tap, newExchangeId }: ObservedRouteDeps,
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
    correlator,
    log,
    exchanges: createObservedExchanges({ route: name, observer: tap, clock, newExchangeId }),
  });
  const pass = createPassThrough(upstream, observer, (error) => {
    log.error({ route: name, reason: String(error) }, "the observer failed; traffic is not affected");
  });
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

/** What telling needs. */
export interface ObservedExchangesDeps {
  readonly route: string;
  readonly observer: WireObserver;
  readonly clock: Clock;
  readonly newExchangeId: () => string;
}

/** The messages of one HTTP request and of its answer, told as they pass. */
export interface ObservedMessages {
  fromClient(message: Message): void;
  fromUpstream(message: Message): void;
  /** Nothing more will come of it. */
  closed(): void;
}

/** Who called, and how. */
export interface ObservedCall {
  readonly request: IncomingMessage;
  readonly principal: Principal;
  readonly revision: Revision;
}

/** Questions of either side that may still be answered, also on another connection; beyond that the oldest is given up. */
const mostOpen = 10_000;

/**
 * Tells a tap of traffic that only passes by, in the same words as of traffic that the gateway terminates: every message
 * as an exchange, with its answer. So routes that observe are counted and recorded like all others.
 */
function createObservedExchanges(options: ObservedExchangesDeps): (call: ObservedCall) => ObservedMessages {
  const { route, observer: tap, clock, newExchangeId } = options;
  const open = new Map<string, Exchange>();
  let visits = 0;

  function remember(key: string, exchange: Exchange): void {
    const [oldest] = open.size < mostOpen ? [] : open.keys();
    if (oldest !== undefined) open.delete(oldest);
    open.set(key, exchange);
  }

  return ({ request, principal, revision }) => {
    visits += 1;
    const named = request.headers["mcp-session-id"];
    const id = typeof named === "string" ? named : undefined;
    const session: SessionContext | undefined = id === undefined ? undefined : { id, upstreamId: id };
    // Without a session nobody can answer on another connection; with one, only who began it.
    const scope = id === undefined ? `visit ${visits}` : `session ${principal.id} ${id}`;
    const own = new Set<string>();
    /** The one request that everything on its stream belongs to; undefined where there are several. */
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
        id: newExchangeId(),
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

    /** The exchange that a message belongs to; undefined where it answers what nobody saw asked. */
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
        tap.received("client", message, exchange);
        tap.sent("upstream", message, exchange);
      },
      fromUpstream: (message) => {
        const exchange = exchangeOf("server-to-client", message, asking);
        if (exchange === undefined) return;
        tap.received("upstream", message, exchange);
        tap.sent("client", message, exchange);
      },
      closed: () => {
        if (id === undefined) for (const key of own) open.delete(key);
      },
    };
  };
}
