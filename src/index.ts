/** Public surface of the gateway as a library: `import { createGateway, parseConfig } from "headgate"`. */
export { createGateway } from "./gateway/gateway.ts";
export type { Gateway, GatewayOptions, ReloadOutcome } from "./gateway/gateway.ts";
export { parseConfig } from "./config/load.ts";
export type { ConfigResult } from "./config/load.ts";
export { loadConfig } from "./config/load.ts";
export type { ConfigInput } from "./config/schema.ts";
export type { Config } from "./config/config.ts";
export { GatewayError, errorTable } from "./errors.ts";
export type { ErrorCode } from "./errors.ts";

// Interceptors: steps of your own for every message.
export { defineInterceptor } from "./core/interceptors/interceptor.ts";
export type {
  InterceptorOptions,
  MessageInterceptor,
  MessageView,
  MessagePhase,
} from "./core/interceptors/interceptor.ts";
export { block, delay, mock, modify, pause, proceed } from "./core/interceptors/action.ts";
export type { Action } from "./core/interceptors/action.ts";
export { HeldMessages } from "./core/interceptors/held-messages.ts";
export type { HeldMessageResult, HeldMessage } from "./core/interceptors/held-messages.ts";
export type { InterceptorEvent } from "./core/interceptors/interceptor.ts";

// Policy: decision points of your own, and what is told of every decision.
export type {
  PolicyRefusal,
  RefusalKind,
  Explanation,
  ListEntry,
  ListPage,
  ListDecision,
  PolicyCall,
  PolicyProvider,
  Decision,
} from "./policy/provider/provider.ts";
export type { DecisionEvent, DecisionListener } from "./policy/provider/decision-event.ts";
export type { InspectedMessage } from "./core/interceptors/inspected-message.ts";

// What interceptors see.
export type { CancelReason } from "./core/cancellation.ts";
export type { Clock, Exchange, Principal, SessionContext, TransportContext } from "./core/exchange.ts";
export type { Handler, Interceptor, Reply } from "./core/pipeline.ts";
export { createLogger } from "./telemetry/log.ts";
export type { Logger, LogOptions } from "./telemetry/log.ts";
export { openTelemetry } from "./telemetry/otel/load.ts";
export type { Telemetry } from "./telemetry/tracing.ts";
