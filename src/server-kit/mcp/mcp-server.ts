import type { Readable, Writable } from "node:stream";

import {
  type AuthInfo,
  type CallToolRequest,
  type CallToolResult,
  type Implementation,
  type InputRequiredResult,
  isInputRequiredResult,
  type ListToolsResult,
  McpServer,
  ProtocolError,
  ProtocolErrorCode,
  Server,
  type ServerContext,
  type ServerNotifier,
  type ServerOptions,
  type Tool,
} from "@modelcontextprotocol/server";
import { serveStdio, StdioServerTransport } from "@modelcontextprotocol/server/stdio";

import { anonymous, type Principal } from "../../core/exchange.ts";
import type { ConnectionContext, KitCore } from "../http/contract.ts";
import type { KitCaller } from "../tools/tool-entry.ts";
import type { TransportName } from "../entity/entity.ts";
import type { Executor, ToolOutcome } from "../tools/executor.ts";
import type { ToolCatalog } from "../tools/tool-catalog.ts";
import { withoutUndefined } from "../../lib/without-undefined.ts";
import type { Logger } from "../../telemetry/log.ts";
import { type AnonymousNames, type ExtensionAccess, throwRefusal } from "./extension-access.ts";

/** What the `extend` hook learns about the connection it adds resources, prompts or tools to (KO-023). */
export interface ExtendContext {
  readonly via: TransportName;
  readonly era: "legacy" | "modern";
  /** Sends list changes to modern HTTP clients; on other connections the server itself sends them. */
  readonly notify: ServerNotifier | undefined;
  /**
   * Opens what the hook registers to callers without a login. Everything else follows the server's
   * `requireAuthentication`.
   */
  readonly allowAnonymous: (names: AnonymousNames) => void;
  /** The caller of a request, for the handlers that the hook registers. */
  readonly principalOf: (request: ServerContext) => Principal;
}

export interface McpServerDeps {
  readonly info: Implementation;
  /** Capabilities, instructions and other options of the SDK's server. */
  readonly options: ServerOptions;
  readonly extend: ((server: McpServer, context: ExtendContext) => void) | undefined;
  readonly catalog: () => ToolCatalog;
  readonly executor: Executor;
  readonly extensionAccess: ExtensionAccess;
  readonly newId: () => string;
  readonly notify: () => ServerNotifier;
}

type Handler = Parameters<Server["_wrapHandler"]>[1];

/** Creates the MCP server of one connection: the tools of the catalog, and whatever the `extend` hook registers. */
export function createKitServer(deps: McpServerDeps, connection: ConnectionContext): KitMcpServer {
  const { via, era } = connection;
  const server = new KitMcpServer(deps, connection);
  const isModernHttp = via === "streamable-http" && era === "modern";
  deps.extend?.(server, {
    via,
    era,
    notify: isModernHttp ? deps.notify() : undefined,
    allowAnonymous: (names) => deps.extensionAccess.allowAnonymous(names),
    principalOf: (request) => server.server.callerOf(request).principal,
  });
  server.rejectDuplicateTools();
  return server;
}

/**
 * The SDK's high-level server on top of ours. Tools of the catalog are not registered with the SDK: that would list
 * them to every caller, turn refusals into results, and cost a millisecond per connection for sixty tools.
 */
export class KitMcpServer extends McpServer {
  override readonly server: KitServer;
  readonly #tools: () => ReturnType<ToolCatalog["onTransport"]>;

  constructor(deps: McpServerDeps, connection: ConnectionContext) {
    // The capabilities belong to our own server; here they would install handlers on the one that is replaced.
    super(deps.info, { ...deps.options, capabilities: {} });
    const { tools: _, ...capabilities } = deps.options.capabilities ?? {};
    this.server = new KitServer({ ...deps, options: { ...deps.options, capabilities } }, connection);
    this.#tools = () => deps.catalog().onTransport(connection.via);
    // The SDK installs the handlers of a kind of thing with the first registration.
    this.registerTool("none", {}, unreachable).remove();
    if (capabilities.resources) this.registerResource("none", "none:", {}, unreachable).remove();
    if (capabilities.prompts) this.registerPrompt("none", {}, unreachable).remove();
  }

  /** The SDK asks for this to check `Mcp-Param-*` headers against the arguments (MCP 2026-07-28). */
  override toolInputSchemaJson(name: string): Record<string, unknown> | undefined {
    return this.#tools().find((entry) => entry.name === name)?.inputSchema ?? super.toolInputSchemaJson(name);
  }

  /** The tools that the hook registered. */
  async extensionTools(): Promise<readonly Tool[]> {
    return this.server.extensionTools();
  }

  /** Throws if the hook registered a tool whose name the catalog has (KO-008). */
  rejectDuplicateTools(): void {
    const duplicate = this.#tools().find(({ name }) => super.toolInputSchemaJson(name) !== undefined);
    if (duplicate !== undefined) throw new Error(`Tool ${duplicate.name} is already registered`);
  }
}

/** The SDK's protocol server; answers tools/list and tools/call for the catalog before the SDK's own handlers. */
class KitServer extends Server {
  readonly #deps: McpServerDeps;
  readonly #connection: ConnectionContext;
  #listExtensionTools: Handler | undefined;

  constructor(deps: McpServerDeps, connection: ConnectionContext) {
    super(deps.info, deps.options);
    this.#deps = deps;
    this.#connection = connection;
  }

  async extensionTools(): Promise<readonly Tool[]> {
    if (this.#listExtensionTools === undefined) return [];
    // The SDK's handler of this method reads neither its request nor its context.
    const listed = await this.#listExtensionTools({ method: "tools/list" } as never, {} as never);
    return (listed as ListToolsResult).tools;
  }

  // The SDK calls this for each handler it installs, some of them before our constructor has run.
  protected override _wrapHandler(method: string, own: Handler): Handler {
    const guarded: Handler = async (request, context) => {
      const caller = this.callerOf(context);
      const refusal = this.#deps.extensionAccess.check(request, caller);
      if (refusal !== undefined) throwRefusal(refusal);
      return this.#deps.extensionAccess.filter(method, await own(request, context), caller) as ReturnType<Handler>;
    };
    switch (method) {
      case "initialize":
      case "ping":
        return super._wrapHandler(method, own);
      case "tools/list":
        this.#listExtensionTools = own;
        return super._wrapHandler(method, async (request, context) => {
          const shown = this.#deps.catalog().list(this.callerOf(context));
          if (this.#deps.extend === undefined) return { tools: [...shown] };
          // The SDK's handler of this method gives its result.
          const { tools, ...rest } = (await guarded(request, context)) as ListToolsResult;
          return { ...rest, tools: [...shown, ...tools] };
        });
      case "tools/call":
        return super._wrapHandler(method, async (request, context) => {
          // The SDK has validated the request when it calls this.
          const { name, arguments: given = {} } = request.params as CallToolRequest["params"];
          const entry = this.#deps.catalog().tools.get(name);
          if (entry === undefined) return guarded(request, context);
          const outcome = await this.#deps.executor.run(entry, given, this.callerOf(context), context);
          const result = toToolResult(name, outcome);
          return isInputRequiredResult(result) ? result : this.projectCallToolResult(result, entry.outputSchema);
        });
      default:
        return super._wrapHandler(method, guarded);
    }
  }

  /** The caller of a request. */
  callerOf(context: ServerContext): KitCaller {
    const { via, sessionId, log } = this.#connection;
    const { signal } = context.mcpReq;
    const given = fromAuthInfo(context.http?.authInfo);
    if (given !== undefined) return { ...given, signal };
    // Only a stdio caller is the local user; a network caller without credentials is anonymous.
    const principal = via === "stdio" ? this.#deps.catalog().stdioPrincipal : anonymous;
    return { principal, via, signal, sessionId, requestId: this.#deps.newId(), log };
  }
}

function unreachable(): never {
  throw new TypeError("a placeholder was called");
}

/**
 * The MCP form of an outcome. Data is repeated as a text block (KO-013); a failure is a result with `isError`; a
 * refusal (KO-098), an unknown tool and a fault (KO-090) are JSON-RPC errors.
 */
function toToolResult(name: string, outcome: ToolOutcome): CallToolResult | InputRequiredResult {
  switch (outcome.kind) {
    case "data":
      return { content: [{ type: "text", text: JSON.stringify(outcome.value) }], structuredContent: outcome.value };
    case "result":
      return outcome.result;
    case "failed": {
      const { code, message, issues } = outcome.failure;
      return {
        content: [{ type: "text", text: message }],
        isError: true,
        _meta: { "headgate/error": { code, ...withoutUndefined({ issues }) } },
      };
    }
    case "refused":
      return throwRefusal(outcome.refusal);
    case "unknown":
      throw new ProtocolError(ProtocolErrorCode.InvalidParams, `Tool ${name} not found`);
    case "cancelled":
      return { content: [{ type: "text", text: "cancelled" }], isError: true };
    case "fault":
      throw new ProtocolError(ProtocolErrorCode.InternalError, `internal error ${outcome.id}`);
  }
}

const callerKey = "headgate/caller";

/** Hands a caller to the SDK, which passes it to request handlers unchanged. Contains no token. */
export function toAuthInfo(caller: KitCaller): AuthInfo {
  const { principal, resourceMetadataUrl } = caller;
  return {
    token: "",
    clientId: principal.id,
    scopes: [...principal.scopes],
    ...(principal.expiresAt === undefined ? {} : { expiresAt: Math.floor(principal.expiresAt / 1000) }),
    ...withoutUndefined({ resourceMetadataUrl }),
    extra: { [callerKey]: caller },
  };
}

function fromAuthInfo(authInfo: AuthInfo | undefined): KitCaller | undefined {
  // Only toAuthInfo writes this key; a request body cannot.
  return authInfo?.extra?.[callerKey] as KitCaller | undefined;
}

/** The streams of a stdio session. Default: those of the process. */
export interface StdioStreams {
  readonly input?: Readable;
  readonly output?: Writable;
}

/** A running stdio session. */
export interface StdioSession {
  /** Resolves when the input has ended or `close` was called (KO-137). */
  readonly ended: Promise<void>;
  close(): Promise<void>;
}

/** Serves the local user over stdio with the SDK; only protocol messages go to the output. */
export function openStdio(core: KitCore, log: Logger, streams: StdioStreams = {}): StdioSession {
  const transport = new ObservedStdioTransport(streams.input, streams.output);
  const session = serveStdio(({ era }) => core.createServer({ via: "stdio", sessionId: undefined, log, era }), {
    transport,
    onerror: (error) => log.warn({ reason: error.message }, "stdio error"),
  });
  return { ended: transport.closed, close: async () => session.close() };
}

/** The SDK's transport, which also tells when it has closed. */
class ObservedStdioTransport extends StdioServerTransport {
  readonly #closed = Promise.withResolvers<void>();

  get closed(): Promise<void> {
    return this.#closed.promise;
  }

  override async close(): Promise<void> {
    await super.close();
    this.#closed.resolve();
  }
}
