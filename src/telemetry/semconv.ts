/**
 * Every name that spans and metrics of MCP have, and nowhere else: the OpenTelemetry semantic conventions for MCP, which
 * live in open-telemetry/semantic-conventions-genai since the core conventions 1.42.0 and are still in development.
 */

/** Attributes of spans and metrics. */
export const attributes = {
  methodName: "mcp.method.name",
  protocolVersion: "mcp.protocol.version",
  sessionId: "mcp.session.id",
  resourceUri: "mcp.resource.uri",
  requestId: "jsonrpc.request.id",
  toolName: "gen_ai.tool.name",
  promptName: "gen_ai.prompt.name",
  operationName: "gen_ai.operation.name",
  // The core conventions have renamed it to `rpc.status_code` since; those of MCP have not followed yet.
  statusCode: "rpc.response.status_code",
  errorType: "error.type",
  networkTransport: "network.transport",
  networkProtocol: "network.protocol.name",
  serverAddress: "server.address",
  serverPort: "server.port",
  clientAddress: "client.address",
  /** Ours: what no convention has a name for. */
  route: "headgate.route",
  exchange: "headgate.exchange",
  errorCode: "headgate.error.code",
} as const;

/** What a span notes of a decision of a policy; ours, because no convention has names for it. */
export const decisionEvent = {
  name: "headgate.decision",
  id: "headgate.decision.id",
  effect: "headgate.decision.effect",
  phase: "headgate.decision.phase",
  enforced: "headgate.decision.enforced",
  provider: "headgate.decision.provider",
  rule: "headgate.decision.rule",
} as const;

/** The value of `gen_ai.operation.name` for tool calls; nothing else has one. */
export const executeTool = "execute_tool";

/** The value of `error.type` where a tool ran and failed. */
export const toolErrorType = "tool_error";

/** The value of `error.type` where the answer did not come in time. */
export const timeoutErrorType = "timeout";

/** What stands for names beyond those that are told apart. */
export const otherName = "_OTHER";

/** Histograms of durations, by what they measure. All are in seconds. */
export const durations = {
  serverOperation: {
    name: "mcp.server.operation.duration",
    description: "Time from the arrival of a request or notification until its answer or acknowledgement went out.",
  },
  clientOperation: {
    name: "mcp.client.operation.duration",
    description: "Time from sending a request or notification until its answer or acknowledgement came.",
  },
  serverSession: {
    name: "mcp.server.session.duration",
    description: "How long a session of a client lasted.",
  },
  clientSession: {
    name: "mcp.client.session.duration",
    description: "How long a session with a server lasted.",
  },
} as const;

/** Upper bounds of the buckets that the conventions want for all of them. */
export const durationBounds: readonly number[] = [0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1, 2, 5, 10, 30, 60, 120, 300];

/** JSON-RPC codes that blame the caller: no failure of the side that answers with them. */
export const callerFaults: ReadonlySet<number> = new Set([-32_700, -32_600, -32_601, -32_602, -32_002]);
