import {
  createMcpHandler,
  isJsonContentType,
  isLegacyRequest,
  type McpServer,
  type ServerNotifier,
} from "@modelcontextprotocol/server";

import type { Clock, SetTimer } from "../../core/exchange.ts";
import type { Logger } from "../../telemetry/log.ts";
import type { KitCaller, ToolRefusal } from "../tools/tool-entry.ts";
import { isObject } from "../../lib/is-object.ts";
import type { KitSettings } from "../settings/settings.ts";
import type { AdmitSession, ConnectionContext, SessionCounts } from "../http/contract.ts";
import { peekJsonBody } from "../http/submission.ts";
import { httpRefusal, refuseToolCall } from "../http/refusal.ts";
import type { Executor } from "../tools/executor.ts";
import type { ExtensionAccess } from "./extension-access.ts";
import { toAuthInfo } from "./mcp-server.ts";
import { createStreamableSessions } from "./streamable-sessions.ts";

/** Streamable HTTP on the base route, for requests that are authenticated already. */
export interface StreamableHandler {
  /** `admitSession` refuses a caller that opens sessions too fast. */
  handle(request: Request, caller: KitCaller, admitSession: AdmitSession): Promise<Response>;
  /** Sends list changes to the open subscriptions of modern clients. */
  readonly notify: ServerNotifier;
  /** The sessions of 2025 clients. */
  sessionCounts(): SessionCounts;
  close(): Promise<void>;
}

/** What the handler is made from. */
export interface StreamableHandlerDeps {
  readonly settings: () => KitSettings;
  readonly executor: Executor;
  readonly extensionAccess: ExtensionAccess;
  readonly createServer: (connection: ConnectionContext) => McpServer;
  readonly log: Logger;
  readonly clock: Clock;
  readonly setTimer: SetTimer;
  readonly newId: () => string;
}

/** Serves both eras with the SDK: modern requests with its handler, 2025 clients with sessions (KO-055). */
export function createStreamableHandler(deps: StreamableHandlerDeps): StreamableHandler {
  const { settings, executor, extensionAccess, log } = deps;
  const { maxRequestBytes: maxRequestBodySize, sseKeepAliveInterval } = settings().transport;
  const connection = { via: "streamable-http", sessionId: undefined, log, era: "modern" } as const;
  const modern = createMcpHandler(() => deps.createServer(connection), {
    legacy: "reject",
    maxRequestBodySize,
    keepAliveMs: sseKeepAliveInterval,
    onerror: (error) => log.debug({ reason: error.message }, "streamable request refused"),
  });
  const sessions = createStreamableSessions(deps);
  return {
    handle: async (request, caller, admitSession) => {
      const isPost = request.method === "POST";
      if (isPost && !isJsonContentType(request.headers.get("content-type"))) {
        return httpRefusal("unsupported_media_type");
      }
      const body = isPost ? await peekJsonBody(request, maxRequestBodySize) : undefined;
      // The status goes out before the call runs, so a refusal has to be known here (KO-098).
      for (const message of Array.isArray(body) ? body : [body]) {
        const refusal = refusalOf(message, caller);
        if (refusal !== undefined) return refuseToolCall(refusal, caller.resourceMetadataUrl);
      }
      if (await isLegacyRequest(request, body, { maxRequestBodySize })) {
        return sessions.handle(request, body, caller, admitSession);
      }
      return modern.fetch(request, { authInfo: toAuthInfo(caller), parsedBody: body });
    },
    notify: modern.notify,
    sessionCounts: () => sessions.counts(),
    close: async () => {
      await Promise.all([modern.close(), sessions.close()]);
    },
  };

  function refusalOf(message: unknown, caller: KitCaller): ToolRefusal | undefined {
    // Notifications and responses ask for nothing.
    if (!isObject(message) || message["id"] === undefined || message["method"] === undefined) return undefined;
    const { name } = isObject(message["params"]) ? message["params"] : {};
    const isCall = message["method"] === "tools/call" && typeof name === "string";
    const decision = isCall ? executor.authorize(name, caller) : ({ kind: "unknown" } as const);
    if (decision.kind === "refused") return decision.refusal;
    return decision.kind === "allowed" ? undefined : extensionAccess.check(message, caller);
  }
}
