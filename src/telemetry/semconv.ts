/**
 * Names of the OpenTelemetry semantic conventions for MCP, which are in open-telemetry/semantic-conventions-genai since
 * the core conventions 1.42.0 and still in development. No other file spells them.
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
  // Renamed to `rpc.status_code` in the core conventions, but not in those for MCP.
  statusCode: "rpc.response.status_code",
  errorType: "error.type",
  networkTransport: "network.transport",
  networkProtocol: "network.protocol.name",
  serverAddress: "server.address",
  serverPort: "server.port",
  clientAddress: "client.address",
  /** Ours, because no convention has them. */
  route: "headgate.route",
  upstream: "headgate.upstream",
  exchange: "headgate.exchange",
  errorCode: "headgate.error.code",
} as const;

/** The span event of a policy decision; ours, because no convention has one. */
export const decisionEvent = {
  name: "headgate.decision",
  id: "headgate.decision.id",
  effect: "headgate.decision.effect",
  phase: "headgate.decision.phase",
  enforced: "headgate.decision.enforced",
  provider: "headgate.decision.provider",
  rule: "headgate.decision.rule",
} as const;

/** The value of `gen_ai.operation.name` for tool calls. */
export const executeTool = "execute_tool";

/** The value of `error.type` if a tool failed. */
export const toolErrorType = "tool_error";

/** The value of `error.type` for a timeout. */
export const timeoutErrorType = "timeout";

/** Replaces names beyond the limit of distinct ones. */
export const otherName = "_OTHER";

/** Histograms of durations, in seconds. */
export const durations = {
  serverOperation: {
    name: "mcp.server.operation.duration",
    description: "Time from receiving a request or notification to sending its answer or acknowledgement.",
  },
  clientOperation: {
    name: "mcp.client.operation.duration",
    description: "Time from sending a request or notification to receiving its answer or acknowledgement.",
  },
  serverSession: {
    name: "mcp.server.session.duration",
    description: "Duration of a client session.",
  },
  clientSession: {
    name: "mcp.client.session.duration",
    description: "Duration of a session with a server.",
  },
} as const;

/** Bucket bounds that the conventions ask for. */
export const durationBounds: readonly number[] = [0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1, 2, 5, 10, 30, 60, 120, 300];

/** JSON-RPC codes of caller errors, which are not failures of the server. */
export const callerFaults: ReadonlySet<number> = new Set([-32_700, -32_600, -32_601, -32_602, -32_002]);
