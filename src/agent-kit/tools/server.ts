import { readdirSync } from "node:fs";

import {
  type CallToolResult,
  McpServer,
  ProtocolError,
  ProtocolErrorCode,
  type ServerContext,
} from "@modelcontextprotocol/server";

import { withoutUndefined } from "../../lib/without-undefined.ts";
import { AgentError } from "../errors.ts";
import { thrownMessage } from "../../lib/thrown-message.ts";
import { type Tool, toolErrorResult, toToolContext } from "./tool.ts";

/** Options of `createServer`. */
export interface ServerOptions {
  /**
   * The tools to start with. Any list, even an empty one, declares the tools capability, so that tools can be added
   * while the server is connected.
   */
  readonly tools?: readonly Tool[];
  /** Shown to the model together with the tools. */
  readonly instructions?: string;
  readonly title?: string;
  /** The default of the tools' own `alwaysLoad`. */
  readonly alwaysLoad?: boolean;
  /** Called with what a tool throws. The model gets only the message. Prints to standard error by default. */
  readonly onToolError?: (error: unknown, toolName: string) => void;
}

interface ServerState {
  readonly options: ServerOptions;
  readonly toolNames: Set<string>;
  readonly listeners: Set<(toolName: string) => void>;
  /** Calls that have not ended, including aborted ones. */
  readonly running: Set<Promise<unknown>>;
}

// What the kit knows about a server beyond the SDK.
const states = new WeakMap<object, ServerState>();

function stateOf(server: object, options: ServerOptions = {}): ServerState {
  const state = states.get(server) ?? { options, toolNames: new Set(), listeners: new Set(), running: new Set() };
  states.set(server, state);
  return state;
}

/**
 * Makes an MCP server for this process: the official SDK's `McpServer` with the given tools.
 *
 * @example
 * ```ts
 * const shop = createServer("Shop", "1.0.0", { tools: [inStock], alwaysLoad: true });
 * ```
 */
export function createServer(name: string, version: string, options: ServerOptions = {}): McpServer {
  const { instructions, title, tools } = options;
  const server = new McpServer(
    { name, version, ...withoutUndefined({ title }) },
    {
      capabilities: { logging: {}, ...(tools !== undefined && { tools: { listChanged: true } }) },
      ...withoutUndefined({ instructions }),
    },
  );
  server.server.fallbackRequestHandler = async ({ method }) => {
    throw new ProtocolError(ProtocolErrorCode.MethodNotFound, `Method '${method}' not found on server '${name}'`);
  };
  stateOf(server, options);
  addTools(server, ...(tools ?? []));
  return server;
}

/**
 * Adds tools to a server and notifies a connected client. A connected server accepts tools only if it was created with
 * a `tools` list.
 *
 * @example
 * ```ts
 * addTools(shop, tool({ name: "order", description: "Orders an item", input, run }));
 * ```
 */
export function addTools(server: McpServer, ...tools: readonly Tool[]): void {
  const state = stateOf(server);
  for (const tool of tools) {
    register(server, tool, state);
    state.toolNames.add(tool.name);
    for (const listener of state.listeners) listener(tool.name);
  }
}

/** Resolves when no tool of the server runs any more. */
export async function whenIdle(server: object): Promise<void> {
  const state = states.get(server);
  if (state !== undefined) await Promise.allSettled(state.running);
}

/** Calls back with the name of each tool that a server has or gets, until the returned function is called. */
export function onToolAdded(server: object, listener: (toolName: string) => void): () => void {
  const state = states.get(server);
  for (const name of state?.toolNames ?? []) listener(name);
  state?.listeners.add(listener);
  return () => state?.listeners.delete(listener);
}

function register(server: McpServer, tool: Tool, { options: defaults, running }: ServerState): void {
  const { name, description, input, output, title, annotations } = tool;
  // Checked here, because the SDK would refuse it only after it has stored the tool.
  if (server.isConnected() && server.server.getCapabilities().tools === undefined) {
    throw new AgentError(
      "tools_not_declared",
      `tool "${name}" cannot be added: the server is connected and did not declare tools; create it with createServer(name, version, { tools: [] })`,
      { details: { tool: name } },
    );
  }
  const meta = {
    ...tool.meta,
    ...((tool.alwaysLoad ?? defaults.alwaysLoad) === true && { "anthropic/alwaysLoad": true }),
  };
  const config = {
    description,
    inputSchema: input,
    ...withoutUndefined({ outputSchema: output, title, annotations }),
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
  // Cancelled before it started; the answer is dropped.
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

const hidden = "<path>";

/**
 * The message of an error for the model, without stack trace and without paths of this machine. Everything else stays:
 * a URL, a ratio, a route of an API and the name of a field are not paths.
 */
export function toErrorText(thrown: unknown): string {
  const text = systemPaths(thrown)
    .reduce((shown, path) => shown.replaceAll(path, hidden), thrownMessage(thrown))
    .replaceAll(/\n\s+at [^\n]*/gu, "")
    .replaceAll(/file:\/\/[^\s'"`)\]]+/gu, hidden)
    // The text of a system error that another error repeats: `ENOENT: no such file or directory, open '/x y/z'`.
    .replaceAll(/(?<what>\bE[A-Z]{2,}: [^\n,']*, \w+ )'[^'\n]*'(?: -> '[^'\n]*')?/gu, `$<what>'${hidden}'`);
  return hideQuoted(text).replaceAll(absolutePath, (path) => (isOfThisMachine(path) ? hidden : path));
}

/** The paths of the system errors behind a thrown value. In other errors, `path` can mean anything. */
function systemPaths(thrown: unknown, depth = 0): readonly string[] {
  if (typeof thrown !== "object" || thrown === null || depth > 8) return [];
  const own = "syscall" in thrown ? ["path", "dest"].map((name): unknown => Reflect.get(thrown, name)) : [];
  const inner: readonly unknown[] = [
    "cause" in thrown ? thrown.cause : undefined,
    ...(thrown instanceof AggregateError ? thrown.errors : []),
  ];
  return [
    ...own.filter((path): path is string => typeof path === "string" && path !== ""),
    ...inner.flatMap((error) => systemPaths(error, depth + 1)),
  ].toSorted((one, other) => other.length - one.length);
}

/** A path in quotes may hold blanks. */
function hideQuoted(text: string): string {
  return text.replaceAll(/(?<quote>['"`])(?<path>(?:[A-Za-z]:)?[\\/][^'"`\n]*)\k<quote>/gu, (whole, quote, path) =>
    isOfThisMachine(String(path)) ? `${String(quote)}${hidden}${String(quote)}` : whole,
  );
}

/** An absolute path with two or more parts, not preceded by other text: not the end of a URL or of `and/or`. */
const absolutePath = /(?<![\w/\\.:%~-])(?:[A-Za-z]:[\\/]|\/(?=[^\s/]+\/))[^\s'"`<>|,;)\]}]*[^\s'"`<>|,;)\]}.:]/gu;

let roots: ReadonlySet<string> | undefined;

/** Whether a path begins in the root folder of this machine, or on a drive. */
function isOfThisMachine(path: string): boolean {
  if (/^[A-Za-z]:/u.test(path) || path.startsWith("\\\\")) return true;
  roots ??= new Set(readdirSync("/"));
  return roots.has(path.split("/")[1] ?? "");
}
