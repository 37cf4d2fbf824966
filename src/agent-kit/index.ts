/** Public surface of the agent kit: `import { createServer, query, tool } from "headgate/agent-kit"`. */

// Servers and tools in your own process.
export { addTools, createServer } from "./server.ts";
export type { ServerOptions } from "./server.ts";
export { tool } from "./tool.ts";
export type { Tool, ToolContext, ToolOptions } from "./tool.ts";
export { withJsonSchema } from "./tool.ts";
export type { AnySchema } from "./tool.ts";
export { toolRule } from "./tool-names.ts";

// Agents that use them.
export { query } from "./agent.ts";
export type { QueryInput } from "./agent.ts";
export { startAgent } from "./agent.ts";
export type { Agent } from "./agent.ts";
export type { AgentServers, ServerChange, ServerStatus } from "./agent-servers.ts";
export type { AgentOptions, PermissionMode } from "./options.ts";
export type {
  ExternalServerConfig,
  InProcessServerConfig,
  ServerConfig,
  ServerConfigs,
  ToolPolicy,
} from "./server-config.ts";
export type { CanUseTool, PermissionDecision, PermissionRequest } from "./callbacks.ts";
export type { HookCallback, HookEvent, HookMatcher, Hooks } from "./callbacks.ts";
export type { UserContent } from "./turn-queue.ts";
export type {
  AgentMessage,
  AssistantMessage,
  ContentBlock,
  ErrorResult,
  OtherMessage,
  PermissionDenial,
  AgentResult,
  SuccessResult,
  SystemMessage,
  UserMessage,
} from "./messages.ts";

// For hosts that run the CLI themselves.
export { bridgeControlChannel } from "./control-bridge.ts";
export type { BridgeOptions, ControlAnswer, ControlBridge } from "./control-bridge.ts";

export { AgentError } from "./errors.ts";
export type { AgentErrorCode } from "./errors.ts";

// For tests and examples: a model that answers by script.
export { startOfflineApi } from "./offline-api.ts";
export type { OfflineApi, OfflineReply, OfflineRequest, OfflineScript } from "./offline-api.ts";
