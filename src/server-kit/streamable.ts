import { createMcpHandler, isLegacyRequest } from "@modelcontextprotocol/server";
import type { McpServer, ServerNotifier } from "@modelcontextprotocol/server";

import { formatChallenge } from "../auth/resource-server.ts";
import { toAuthInfo } from "./caller.ts";
import type { ToolCatalog } from "./catalogue.ts";
import type { KitCaller } from "./contract.ts";
import { refuseRequest } from "./http/refusals.ts";
import { peekJsonBody } from "./request-json.ts";
import { isObject } from "./row.ts";
import type { KitSettings } from "./settings.ts";
import type { StreamableSessions } from "./streamable-sessions.ts";

/** Streamable HTTP on the base route, for requests that have passed the door. */
export interface StreamableHandler {
  handle(request: Request, caller: KitCaller): Promise<Response>;
  /** Tells open subscriptions of modern clients of changes. */
  readonly notify: ServerNotifier;
  close(): Promise<void>;
}

/** What it is made from. */
export interface StreamableHandlerDeps {
  readonly settings: () => KitSettings;
  readonly catalogue: () => ToolCatalog;
  readonly sessions: StreamableSessions;
  readonly createServer: () => McpServer;
  readonly onError: (error: Error) => void;
}

/** Serves both eras by the SDK: modern requests by its handler, 2025 clients by sessions (KO-055). */
export function createStreamableHandler(parts: StreamableHandlerDeps): StreamableHandler {
  const maxRequestBodySize = parts.settings().transport.maxRequestBytes;
  const modern = createMcpHandler(parts.createServer, {
    legacy: "reject",
    maxRequestBodySize,
    keepAliveMs: parts.settings().transport.sseKeepAliveInterval,
    onerror: parts.onError,
  });
  return {
    handle: async (request, caller) => {
      const challenge = await challengeFor(request, caller);
      if (challenge !== undefined) return challenge;
      // The predicate reads a clone, so the request stays whole for whoever serves it.
      if (await isLegacyRequest(request, undefined, { maxRequestBodySize })) {
        return parts.sessions.handle(request, caller);
      }
      return modern.fetch(request, { authInfo: toAuthInfo(caller) });
    },
    notify: modern.notify,
    close: async () => {
      await Promise.all([modern.close(), parts.sessions.close()]);
    },
  };

  /** A call that needs a login is answered 401; the SDK knows challenges for scopes only (KO-098). */
  async function challengeFor(request: Request, caller: KitCaller): Promise<Response | undefined> {
    const isCandidate = request.method === "POST" && caller.principal.kind === "anonymous";
    if (!isCandidate || !parts.catalogue().requiresLogin) return undefined;
    const names = toolsCalledIn(await peekJsonBody(request, maxRequestBodySize));
    const isRefused = names.some((name) => parts.catalogue().authorize(caller, name).kind === "refused");
    if (!isRefused) return undefined;
    const metadataUrl = caller.resourceMetadataUrl;
    return refuseRequest("unauthorized", {
      headers: { "www-authenticate": formatChallenge(metadataUrl === undefined ? {} : { metadataUrl }) },
    });
  }
}

function toolsCalledIn(body: unknown): readonly string[] {
  const messages: readonly unknown[] = Array.isArray(body) ? body : [body];
  return messages.flatMap((message) => {
    if (!isObject(message) || message["method"] !== "tools/call" || !isObject(message["params"])) return [];
    const { name } = message["params"];
    return typeof name === "string" ? [name] : [];
  });
}
