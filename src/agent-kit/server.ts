import {
  type CallToolResult,
  McpServer,
  ProtocolError,
  ProtocolErrorCode,
  type ServerContext,
} from "@modelcontextprotocol/server";

import { AgentError, thrownMessage } from "./errors.ts";
import { toErrorText, toolErrorResult } from "./tool-result.ts";
import { type Tool, toToolContext } from "./tool.ts";

/** What a server is made of besides its name and version. */
export interface ServerOptions {
  /**
   * The tools it starts with. Any list, an empty one too, declares that the server has tools, so that more can be added
   * while it is connected.
   */
  readonly tools?: readonly Tool[];
  /** Read by the model together with the tools. */
  readonly instructions?: string;
  readonly title?: string;
  /** The default of the tools' own `alwaysLoad`. */
  readonly alwaysLoad?: boolean;
  /** Gets what handlers throw, stack and all; the model gets the message only. Printed to standard error by default. */
  readonly onToolError?: (error: unknown, toolName: string) => void;
}

interface ServerState {
  readonly options: ServerOptions;
  readonly toolNames: Set<string>;
  readonly watchers: Set<(toolName: string) => void>;
  /** Calls of its tools that have not ended, aborted ones too. */
  readonly running: Set<Promise<unknown>>;
}

// What the kit knows of a server beside the SDK; it ends with the server.
const stateOf = new WeakMap<object, ServerState>();

/** Makes an MCP server for this process: the official SDK's own class, with the tools given. */
export function createServer(name: string, version: string, options: ServerOptions = {}): McpServer {
  const { instructions, title, tools } = options;
  const server = new McpServer(
    { name, version, ...(title !== undefined && { title }) },
    {
      capabilities: { logging: {}, ...(tools !== undefined && { tools: { listChanged: true } }) },
      ...(instructions !== undefined && { instructions }),
    },
  );
  server.server.fallbackRequestHandler = async ({ method }) => {
    throw new ProtocolError(ProtocolErrorCode.MethodNotFound, `Method '${method}' not found on server '${name}'`);
  };
  stateOf.set(server, { options, toolNames: new Set(), watchers: new Set(), running: new Set() });
  addTools(server, ...(tools ?? []));
  return server;
}

/**
 * Adds tools to a server, which tells a connected client so. A server that is connected takes them only if it declared
 * tools when it was made.
 */
export function addTools(server: McpServer, ...tools: readonly Tool[]): void {
  const facts = stateOf.get(server) ?? {
    options: {},
    toolNames: new Set(),
    watchers: new Set(),
    running: new Set(),
  };
  stateOf.set(server, facts);
  for (const tool of tools) {
    register(server, tool, facts);
    facts.toolNames.add(tool.name);
    for (const watcher of facts.watchers) watcher(tool.name);
  }
}

/** Resolves when no handler of the server's tools runs any more. */
export async function whenIdle(server: object): Promise<void> {
  const facts = stateOf.get(server);
  if (facts !== undefined) await Promise.allSettled(facts.running);
}

/** Calls back with the name of each tool that a server has and gets, until the returned function is called. */
export function onToolAdded(server: object, watcher: (toolName: string) => void): () => void {
  const facts = stateOf.get(server);
  for (const name of facts?.toolNames ?? []) watcher(name);
  facts?.watchers.add(watcher);
  return () => {
    facts?.watchers.delete(watcher);
  };
}

function register(server: McpServer, tool: Tool, { options: defaults, running }: ServerState): void {
  const { name, description, inputSchema, outputSchema, options } = tool;
  // The SDK sets up its tool handlers after it has taken the tool, so a refusal there would leave it half done.
  if (server.isConnected() && server.server.getCapabilities().tools === undefined) {
    throw new AgentError(
      "tools_not_declared",
      `tool "${name}" comes too late: the server is connected and did not declare tools; create it with createServer(name, version, { tools: [] })`,
      { details: { tool: name } },
    );
  }
  const meta = {
    ...options.meta,
    ...((options.alwaysLoad ?? defaults.alwaysLoad) === true && { "anthropic/alwaysLoad": true }),
  };
  const config = {
    description,
    inputSchema,
    ...(outputSchema !== undefined && { outputSchema }),
    ...(options.title !== undefined && { title: options.title }),
    ...(options.annotations !== undefined && { annotations: options.annotations }),
    ...(Object.keys(meta).length > 0 && { _meta: meta }),
  };
  try {
    server.registerTool(name, config, async (args, context) => {
      const call = runTool(tool, args, context, defaults.onToolError ?? printError);
      running.add(call);
      return call.finally(() => running.delete(call));
    });
  } catch (error) {
    throw new AgentError("tool_exists", `tool "${name}" was not added: ${thrownMessage(error)}`, {
      details: { tool: name },
      cause: error,
    });
  }
}

async function runTool(
  { name, run }: Tool,
  args: unknown,
  context: ServerContext,
  onToolError: NonNullable<ServerOptions["onToolError"]>,
): Promise<CallToolResult> {
  // Cancelled while it waited for its turn: nobody wants the work done, and the answer is dropped.
  if (context.mcpReq.signal.aborted) return { content: [] };
  try {
    return await run(args, toToolContext(context));
  } catch (error) {
    if (!context.mcpReq.signal.aborted) onToolError(error, name);
    return toolErrorResult(toErrorText(error));
  }
}

function printError(error: unknown, toolName: string): void {
  console.error(`tool ${toolName} failed:`, error);
}
