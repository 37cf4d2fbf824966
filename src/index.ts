/** Public surface of the gateway as a library: `import { createGateway, parseConfig } from "headgate"`. */
export { createGateway } from "./gateway/create.ts";
export type { Gateway, GatewayOptions, ReloadOutcome } from "./gateway/create.ts";
export { parseConfig } from "./config/parse.ts";
export type { ConfigResult } from "./config/parse.ts";
export { loadConfig } from "./config/load.ts";
export type { ConfigInput } from "./config/schema.ts";
export type { Config } from "./config/config.ts";
export { GatewayError, errorTable } from "./errors.ts";
export type { ErrorCode } from "./errors.ts";

// Interceptors: steps of your own for every message.
export { defineInterceptor } from "./intercept/interceptor.ts";
export type {
  InterceptorOptions,
  MessageInterceptor,
  MessageView,
  MessagePhase,
} from "./intercept/interceptor.ts";
export { block, delay, mock, modify, pause, proceed } from "./intercept/action.ts";
export type { Action } from "./intercept/action.ts";
export { HeldMessages } from "./intercept/pause-board.ts";
export type { HeldMessageResult, HeldMessage } from "./intercept/pause-board.ts";
export type { InterceptorEvent } from "./intercept/event.ts";

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
} from "./policy/provider.ts";
export type { DecisionEvent, DecisionListener } from "./policy/decision.ts";
export type { InspectedMessage } from "./intercept/subject.ts";

// What interceptors see.
export type {
  CancelReason,
  Clock,
  Exchange,
  Principal,
  SessionContext,
  TransportContext,
} from "./exchange.ts";
export type { Handler, Interceptor, Reply } from "./pipeline.ts";
export { createLogger } from "./telemetry/log.ts";
export type { Logger, LogOptions } from "./telemetry/log.ts";
export { openTelemetry } from "./telemetry/otel/load.ts";
export type { Telemetry } from "./telemetry/tracing.ts";
