import type { ServerResponse } from "node:http";
import type { SuspendedCalls } from "../bridge/modern-to-legacy/parking.ts";
import type { ErrorCode, GatewayError } from "../errors.ts";
import type { Clock, Exchange, SetTimer } from "../exchange.ts";
import type { Message, ParseLimits } from "../protocol/message.ts";
import type { EventStore } from "../sessions/event-store.ts";
import type { SessionRegistry } from "../sessions/registry.ts";
import type { Logger } from "../telemetry/log.ts";
import type { Metrics } from "../telemetry/metrics.ts";
import type { SseResponseOptions } from "../transports/http/sse-response.ts";
import type { ClientAddress } from "./client-address.ts";
import type { Route } from "./route.ts";

/** What all parts of a running gateway share. */
export interface GatewayContext {
  readonly clock: Clock;
  readonly setTimer: SetTimer;
  readonly log: Logger;
  readonly metrics: Metrics;
  readonly registry: SessionRegistry;
  readonly events: EventStore;
  /** Where calls of modern clients wait while a legacy server asks. */
  readonly parking: SuspendedCalls;
  readonly limits: { readonly parse: ParseLimits; readonly queueBytes: number };
  /** Short, unique in this process, and not a secret. */
  readonly newExchangeId: () => string;
  /** From which address an HTTP request comes; proxies are believed only where they are trusted. */
  readonly addressOf: ClientAddress;
  readonly streamOptions: (route: Route) => SseResponseOptions;
  /** Counts a message that the gateway itself refused. */
  readonly countRefusal: (route: Route, code: ErrorCode) => void;
  /** Logs and counts a failed exchange; the answer is the error to tell the caller. */
  readonly reportFailure: (route: Route, exchange: Exchange, error: GatewayError) => GatewayError;
  /** Answers an HTTP request with an error of ours, with the id of the message where there was one. */
  readonly refuse: (
    route: Route,
    response: ServerResponse,
    error: GatewayError,
    message: Message | undefined,
  ) => void;
}
