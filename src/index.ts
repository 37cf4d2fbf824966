/** The gateway as a library: `import { createGateway, parseConfig } from "headgate"`. */
import "./lib/node-version.ts";

export { createGateway } from "./gateway/gateway.ts";
export type { Gateway, GatewayOptions, ListeningGateway, ReloadOptions, ReloadOutcome } from "./gateway/gateway.ts";
export type { McpServerFactory } from "./transports/in-process.ts";
export type { Channel, ChannelEvents } from "./transports/transport.ts";
export type { UnreadMessage } from "./protocol/unread-message.ts";

// Configuration.
export { loadConfig, parseConfig } from "./config/load.ts";
export type { ConfigResult, Inspection, LoadOptions } from "./config/load.ts";
export type { ConfigInput, ParsedConfig } from "./config/schema.ts";
export type {
  Config,
  DeepReadonly,
  HttpUpstreamConfig,
  ParsedUpstream,
  RouteAuth,
  RouteConfig,
  RoutePolicy,
  RouteTimeouts,
  FederationConfig,
  MemberConfig,
  ServerUpstream,
  Upstream,
  ViewConfig,
} from "./config/config.ts";
export type { ConfigFinding, Path, Problem } from "./config/issues.ts";
export type { PolicyConfig } from "./policy/config.ts";
export type { Secrets } from "./config/secrets.ts";
export type { SourceFormat } from "./config/source.ts";
export type { Environment } from "./config/substitute.ts";

// Errors.
export { errorTable, GatewayError } from "./errors.ts";
export type { ErrorCode, ErrorFacts, ErrorLevel, GatewayErrorOptions } from "./errors.ts";

// Interceptors: steps of your own for every message.
export { loadInterceptors } from "./gateway/wiring/interceptor-files.ts";
export type { InterceptorConfig } from "./config/interceptors.ts";
export { defineInterceptor } from "./core/interceptors/interceptor.ts";
export type {
  InterceptorOptions,
  MessageInterceptor,
  MessagePhase,
  MessageView,
} from "./core/interceptors/interceptor.ts";
export { block, delay, mock, modify, pause, proceed } from "./core/interceptors/action.ts";
export type { Action, BlockOptions, MessageChange, MockAnswer, PauseOptions } from "./core/interceptors/action.ts";
export type {
  HeldMessage,
  HeldMessageEvent,
  HeldMessageResult,
  HeldMessages,
} from "./core/interceptors/held-messages.ts";
export type {
  Exchange,
  HttpFacts,
  Principal,
  SessionContext,
  Timing,
  TraceHeaders,
  TransportContext,
} from "./core/exchange.ts";

// Policy: providers of your own, and every decision.
export type {
  Decision,
  Explanation,
  ListDecision,
  ListEntry,
  ListKind,
  ListPage,
  PdpHttpAnswer,
  PolicyCall,
  PolicyProvider,
  PolicyRefusal,
  RefusalKind,
  ShadowDecision,
} from "./policy/provider/provider.ts";
export type { KnownNames, NameTree } from "./protocol/json/folded-names.ts";
export type {
  DecisionEvent,
  DecisionListener,
  DecisionPhase,
  DecisionTarget,
  FilteredList,
} from "./policy/provider/decision-event.ts";
export type { InspectedMessage } from "./core/interceptors/inspected-message.ts";
export type { MaybePromise } from "./lib/is-promise.ts";
export type { Clock } from "./lib/clock.ts";

// Logs and traces.
export { createLogger } from "./telemetry/log.ts";
export type {
  FieldLogger,
  LogDestination,
  LogFields,
  Logger,
  LogMethod,
  LogOptions,
  RootLogger,
} from "./telemetry/log.ts";
export type { LogLevel } from "./telemetry/log.ts";
export { openTelemetry } from "./telemetry/otel/load.ts";
export type { OpenTelemetryOptions, OtelEnvironment } from "./telemetry/otel/load.ts";
export type { Telemetry } from "./telemetry/trace-context.ts";
