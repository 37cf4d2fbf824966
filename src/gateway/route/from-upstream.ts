import { Cancellation } from "../../core/cancellation.ts";
import {
  createExchange,
  type Exchange,
  type MessageOrigin,
  timingOf,
  type TransportContext,
} from "../../core/exchange.ts";
import type { Handler, Reply } from "../../core/pipeline.ts";
import { gatewayErrorMessage } from "../../core/reply.ts";
import { GatewayError } from "../../errors.ts";
import { createDiagnostic, diagnosticTable } from "../../protocol/diagnostics.ts";
import { type Message, messageBytes } from "../../protocol/message.ts";
import { newestLegacy, newestModern } from "../../protocol/revisions.ts";
import type { RouteTracing } from "../../telemetry/trace-context.ts";
import type { UpstreamLink } from "../../transports/transport.ts";
import type { GatewayContext } from "../context.ts";
import type { LinkEventsFor, LinkScope } from "../upstream/links.ts";
import type { WireObserver } from "../wiring/wire-observer.ts";

export interface FromUpstreamDeps {
  readonly route: string;
  readonly observer: WireObserver;
  /** What an answer to a server must wait for; undefined if nothing. */
  readonly whenStored: (() => Promise<void> | undefined) | undefined;
  readonly tracing: RouteTracing | undefined;
  /** The pipeline towards the client; a reload replaces it. */
  readonly pipeline: () => Handler;
  /** Takes a response that answers no request. */
  readonly strayResponse: (exchange: Exchange) => void;
}

/** Creates the handlers for unsolicited messages of an upstream: notifications, requests, and its end. */
export function createFromUpstream(gateway: GatewayContext, deps: FromUpstreamDeps): LinkEventsFor {
  const { clock, newLabel, log } = gateway;
  const { route, observer, whenStored, tracing, pipeline, strayResponse } = deps;

  const enter: Handler = (exchange) => {
    observer.received("upstream", exchange.message, exchange);
    return pipeline()(exchange);
  };
  const receive = tracing === undefined ? enter : tracing.received(enter);

  function exchangeOf(
    scope: LinkScope,
    link: UpstreamLink,
    message: Message,
    related: Exchange | undefined,
    transport: TransportContext,
  ): Exchange {
    const newest = scope.era === "modern" ? newestModern : newestLegacy;
    return createExchange({
      id: newLabel(scope.session, message),
      direction: "server-to-client",
      message,
      route,
      principal: related?.principal ?? scope.session?.principal ?? scope.principal,
      revision: related?.revision ?? scope.session?.revision ?? newest,
      session: scope.session,
      transport,
      timing: timingOf(clock),
      parent: related,
      ...(link.hasBackpressure ? {} : { isUnpaced: true }),
    });
  }

  /** The origin of something that holds no message and belongs to no call. */
  function originOf(scope: LinkScope, transport: TransportContext): MessageOrigin {
    return {
      id: newLabel(scope.session),
      direction: "server-to-client",
      route,
      principal: scope.session?.principal ?? scope.principal,
      revision: scope.session?.revision ?? (scope.era === "modern" ? newestModern : newestLegacy),
      session: scope.session,
      transport,
      parent: undefined,
      tracking: { entry: undefined },
    };
  }

  /**
   * Sends the outcome of a server's request back to it. Not `async`: thousands of requests may wait for people, and a
   * suspended frame keeps more than these two callbacks.
   */
  function answerWhenKnown(link: UpstreamLink, exchange: Exchange, outcome: Promise<Reply>): void {
    outcome.then(
      ({ message }) => answer(link, exchange, message),
      (error: unknown) => answer(link, exchange, failureMessage(exchange, error)),
    );
  }

  function failureMessage(exchange: Exchange, error: unknown): Message {
    const failure = gateway.reportFailure(exchange, GatewayError.from(error));
    return gatewayErrorMessage(exchange, exchange.message.id, failure, failure.facts.jsonrpc ?? -32603);
  }

  async function answer(link: UpstreamLink, exchange: Exchange, known: Message | undefined): Promise<void> {
    if (known === undefined) return;
    let message = known;
    try {
      observer.sent("upstream", message, exchange);
      const stored = whenStored?.();
      if (stored !== undefined)
        await stored.catch((error: unknown) => {
          message = failureMessage(exchange, error);
        });
      // If no answer came in time, the exchange is cancelled, but the server still needs an answer.
      const cancellation = new Cancellation();
      await link.send({ ...exchange, direction: "client-to-server", message, original: message, cancellation });
    } catch (error) {
      gateway.reportFailure(exchange, GatewayError.from(error));
    }
  }

  return (opened) => {
    const { scope } = opened;
    return {
      message: (message, related, transport, member) => {
        if (message.kind === "result" || message.kind === "error") {
          strayResponse(exchangeOf(scope, opened.link, message, related, transport));
          return undefined;
        }
        const exchange = exchangeOf(scope, opened.link, message, related, transport);
        if (member !== undefined) exchange.tracking.upstream = { member, name: "" };
        const outcome = receive(exchange);
        if (message.kind === "notification") {
          return outcome.then(
            () => {},
            (error: unknown) => {
              gateway.reportFailure(exchange, GatewayError.from(error));
            },
          );
        }
        // The stream continues while the client works on the request.
        answerWhenKnown(opened.link, exchange, outcome);
        return undefined;
      },
      malformed: (bytes, reason, related, transport) => {
        const about = related ?? originOf(scope, transport);
        log.warn({ exchange: about.id, route, bytes: bytes.length, reason }, "upstream sent malformed data");
        observer.receivedRaw("upstream", bytes, about);
        observer.found(createDiagnostic("event.not-json", reason), about);
      },
      dropped: (why, message, transport) => {
        const about = originOf(scope, transport);
        observer.receivedRaw("upstream", messageBytes(message), about);
        observer.found(diagnosticTable[why], about);
      },
      error: ({ code, message }) => {
        log.debug({ route, code, reason: message }, "could not notify the upstream");
      },
      closed: ({ code, message }) => {
        opened.forget();
        log.info({ route, code, reason: message }, "upstream connection ended");
        scope.session?.end(message, "upstream");
      },
    };
  };
}
