/**
 * The agent kit: lets a Claude agent call functions of your process.
 *
 * @example
 * ```ts
 * import { createServer, query, tool } from "headgate/agent-kit";
 * ```
 */
import "../lib/node-version.ts";

// Servers and tools in your own process.
export { addTools, createServer } from "./tools/server.ts";
export type { ServerOptions } from "./tools/server.ts";
export { tool, withJsonSchema } from "./tools/tool.ts";
export type { AnySchema, SchemaOutput, Tool, ToolContext, ToolDefinition } from "./tools/tool.ts";

// Agents that use them.
export { query, startAgent } from "./agent/agent.ts";
export type { Agent, QueryInput } from "./agent/agent.ts";
export type { AgentServers, ServerChange, ServerStatus } from "./agent/agent-servers.ts";
export type { AgentOptions, PermissionMode, Subagent } from "./agent/options.ts";
export { listSessions } from "./agent/sessions.ts";
export type { ListSessionsOptions, SessionInfo } from "./agent/sessions.ts";
export type {
  ExternalServerConfig,
  InProcessServerConfig,
  ServerConfig,
  ServerConfigs,
  ToolPolicy,
} from "./tools/server-config.ts";
export type {
  CanUseTool,
  HookCallback,
  HookEvent,
  HookFailure,
  HookMatcher,
  Hooks,
  PermissionDecision,
  PermissionRequest,
} from "./agent/callbacks.ts";
export type { UserContent } from "./agent/turn-queue.ts";
export type {
  AgentMessage,
  AgentResult,
  AssistantMessage,
  ContentBlock,
  ErrorResult,
  OtherMessage,
  PartialMessage,
  PermissionDenial,
  ResultDetails,
  SuccessResult,
  SystemMessage,
  UserMessage,
} from "./agent/messages.ts";
export { AgentError } from "./errors.ts";
export type { AgentErrorCode, AgentErrorOptions, OnWarning } from "./errors.ts";
export type { UnknownRecord } from "./json-rpc.ts";

// For hosts that run the CLI themselves.
export { bridgeControlChannel } from "./control/control-bridge.ts";
export type { BridgeOptions, ControlAnswer, ControlBridge } from "./control/control-bridge.ts";

// For tests and examples: a scripted model.
export { startOfflineApi } from "./offline-api.ts";
export type { OfflineApi, OfflineReply, OfflineRequest, OfflineScript } from "./offline-api.ts";
