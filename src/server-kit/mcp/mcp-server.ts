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
  type ScopeChallengeHandler,
  type ServerContext,
  type ServerNotifier,
  type ServerOptions,
  type StandardSchemaWithJSON,
} from "@modelcontextprotocol/server";

import { anonymous } from "../../core/exchange.ts";
import type { ToolCatalog } from "../tools/tool-catalog.ts";
import type { ConnectionContext, KitCaller } from "../contract/contract.ts";
import type { Executor, ToolOutcome } from "../tools/executor.ts";
import type { JsonObject } from "../contract/row.ts";
import type { ToolEntry } from "../tools/tool-entry.ts";

/** What the hook for resources, prompts and whatever else MCP has is told (KO-023). */
export interface ExtendContext {
  readonly via: ConnectionContext["via"];
  readonly era: ConnectionContext["era"];
  /** Tells modern clients on HTTP of changes; on any other connection the server itself does. */
  readonly notify: ServerNotifier | undefined;
}

/** What every server of a kit is made from. */
export interface McpServerDeps {
  readonly info: Implementation;
  /** Capabilities, instructions and the like, where the hook needs more than tools. */
  readonly options: ServerOptions;
  readonly extend: ((server: McpServer, context: ExtendContext) => void) | undefined;
  readonly catalogue: () => ToolCatalog;
  readonly executor: Executor;
  readonly newId: () => string;
  readonly notify: () => ServerNotifier;
}

type ListHandler = (request: unknown, context: ServerContext) => ListToolsResult | Promise<ListToolsResult>;
type CallHandler = (
  request: CallToolRequest,
  context: ServerContext,
) => CallToolResult | InputRequiredResult | Promise<CallToolResult | InputRequiredResult>;

/**
 * A fresh server for one connection; tools of the catalogue and of the hook stand side by side. Those of the catalogue
 * are listed and run from here, because registering sixty of them costs more than a millisecond a connection; only
 * Streamable HTTP registers them too, for the SDK's challenges and its check of mirrored headers.
 */
export function createKitServer(parts: McpServerDeps, connection: ConnectionContext): McpServer {
  const { catalogue, executor } = parts;
  const { via, era, sessionId, log } = connection;
  const server = new McpServer(parts.info, withoutTools(parts.options));
  const known = new Set(
    catalogue()
      .onTransport(via)
      .map(({ name }) => name),
  );
  wrapToolHandlers(server, {
    list: (own) => async (request, context) => {
      const shown = catalogue().list(callerOf(context));
      if (parts.extend === undefined) return { tools: [...shown] };
      const { tools: all, ...rest } = await own(request, context);
      return { ...rest, tools: [...shown, ...all.filter(({ name }) => !known.has(name))] };
    },
    call: (own) => async (request, context) => {
      const { name, arguments: given = {} } = request.params;
      const { tools } = catalogue();
      if (!known.has(name) && !tools.has(name)) return own(request, context);
      const outcome = await executor.call(name, given, callerOf(context), context);
      const result = toToolResult(name, outcome);
      if (isInputRequiredResult(result)) return result;
      return server.server.projectCallToolResult(result, tools.get(name)?.outputSchema);
    },
  });
  // Makes the SDK set its handlers, also where nothing else is registered.
  server.registerTool("none", {}, unreachable).remove();
  if (via === "streamable-http") for (const entry of catalogue().onTransport(via)) register(entry);
  const isModernHttp = via === "streamable-http" && era === "modern";
  parts.extend?.(server, { via, era, notify: isModernHttp ? parts.notify() : undefined });
  return server;

  function callerOf(context: ServerContext): KitCaller {
    const given = fromAuthInfo(context.http?.authInfo);
    const { signal } = context.mcpReq;
    if (given !== undefined) return { ...given, signal };
    // Only stdio is the local user: over a network, whoever is not named is nobody.
    const principal = via === "stdio" ? catalogue().stdioPrincipal : anonymous;
    return { principal, via, signal, sessionId, requestId: parts.newId(), log };
  }

  function register(entry: ToolEntry): void {
    const { inputSchema, outputSchema } = schemasOf(entry);
    server.registerTool(
      entry.name,
      {
        inputSchema,
        ...(outputSchema === undefined ? {} : { outputSchema }),
        scopeChallenge: challengeFor(entry.name, catalogue),
      },
      unreachable,
    );
  }
}

/** Calls of registered tools are answered before the SDK looks for them. */
function unreachable(): CallToolResult {
  throw new TypeError("a tool of the catalogue was called past the executor");
}

/** Asks for more scopes by HTTP 403 where the transport can do that (KO-098, step-up). */
function challengeFor(name: string, catalogue: () => ToolCatalog): ScopeChallengeHandler {
  return ({ authInfo }) => {
    const caller = fromAuthInfo(authInfo);
    if (caller === undefined) return undefined;
    const verdict = catalogue().authorize(caller, name);
    if (verdict.kind !== "refused" || verdict.refusal.reason !== "insufficient_scope") return undefined;
    const [first, ...others] = verdict.refusal.requiredScopes;
    return first === undefined
      ? undefined
      : { scopes: [first, ...others], errorDescription: "this tool needs more scopes" };
  };
}

/**
 * The MCP form of an outcome: data is the text block too (KO-013), a failure is a result, a refusal an error of ours
 * (KO-098), an unknown tool and a fault are errors of JSON-RPC (KO-090).
 */
function toToolResult(name: string, outcome: ToolOutcome): CallToolResult | InputRequiredResult {
  switch (outcome.kind) {
    case "data":
      return {
        content: [{ type: "text", text: JSON.stringify(outcome.value) }],
        structuredContent: outcome.value,
      };
    case "result":
      return outcome.result;
    case "failed": {
      const { code, message, issues } = outcome.failure;
      return {
        content: [{ type: "text", text: message }],
        isError: true,
        _meta: { "headgate/error": { code, ...(issues === undefined ? {} : { issues }) } },
      };
    }
    case "refused": {
      const { code, message, reason, requiredScopes } = outcome.refusal;
      throw new ProtocolError(code, message, { reason, requiredScopes });
    }
    case "unknown":
      throw new ProtocolError(ProtocolErrorCode.InvalidParams, `Tool ${name} not found`);
    case "cancelled":
      return { content: [{ type: "text", text: "cancelled" }], isError: true };
    case "fault":
      throw new ProtocolError(ProtocolErrorCode.InternalError, `internal error ${outcome.id}`);
  }
}

const schemas = new WeakMap<ToolEntry, ReturnType<typeof makeSchemas>>();

function schemasOf(entry: ToolEntry): ReturnType<typeof makeSchemas> {
  const known = schemas.get(entry) ?? makeSchemas(entry);
  schemas.set(entry, known);
  return known;
}

function makeSchemas(entry: ToolEntry) {
  return {
    inputSchema: passThrough(entry.inputSchema),
    outputSchema: entry.outputSchema === undefined ? undefined : passThrough(entry.outputSchema),
  };
}

/** Says its JSON Schema and lets everything pass: the executor checks input and output, for every transport alike. */
function passThrough(json: JsonObject): StandardSchemaWithJSON<unknown, unknown> {
  const toJson = (): Record<string, unknown> => json;
  return {
    "~standard": {
      version: 1,
      vendor: "headgate",
      validate: (value) => ({ value }),
      jsonSchema: { input: toJson, output: toJson },
    },
  };
}

/** The SDK sets its handlers of the tools methods when the first tool is registered, if it is told nothing before. */
function withoutTools(options: ServerOptions): ServerOptions {
  const { tools: _, ...capabilities } = options.capabilities ?? {};
  return { ...options, capabilities };
}

/**
 * Puts ours around the SDK's own handlers of tools/list and tools/call, at the moment it sets them. The SDK gives no
 * handler out again, and making the list ourselves would leave out what the hook registered.
 */
function wrapToolHandlers(
  server: McpServer,
  wrap: {
    readonly list: (own: ListHandler) => ListHandler;
    readonly call: (own: CallHandler) => CallHandler;
  },
): void {
  const target = server.server;
  const set = target.setRequestHandler.bind(target);
  const setWrapped = (method: unknown, handler: unknown, ...rest: readonly unknown[]): void => {
    // The SDK types what it sets by the method, which is looked at right here.
    const wrapped =
      method === "tools/list"
        ? wrap.list(handler as ListHandler)
        : method === "tools/call"
          ? wrap.call(handler as CallHandler)
          : handler;
    Reflect.apply(set, undefined, [method, wrapped, ...rest]);
  };
  Object.defineProperty(target, "setRequestHandler", { value: setWrapped, writable: true });
}

const callerKey = "headgate/caller";

/** Hands a caller to the SDK, which gives it back to handlers untouched; no token is in it. */
export function toAuthInfo(caller: KitCaller): AuthInfo {
  const { principal, resourceMetadataUrl } = caller;
  return {
    token: "",
    clientId: principal.id,
    scopes: [...principal.scopes],
    ...(principal.expiresAt === undefined ? {} : { expiresAt: Math.floor(principal.expiresAt / 1000) }),
    ...(resourceMetadataUrl === undefined ? {} : { resourceMetadataUrl }),
    extra: { [callerKey]: caller },
  };
}

/** The caller that `toAuthInfo` put in; undefined over stdio. */
function fromAuthInfo(authInfo: AuthInfo | undefined): KitCaller | undefined {
  const caller = authInfo?.extra?.[callerKey];
  // Only toAuthInfo writes this key, and nothing of a request's body gets there.
  return caller === undefined ? undefined : (caller as KitCaller);
}
