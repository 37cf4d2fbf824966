// What the two halves of the kit promise each other: the core (entities, tools, executor, REST, the SDK's Streamable
// HTTP handler) and the HTTP edge in http/ (door, sessions, the document's profile, health), joined in create.ts.
import type { AuthInfo, McpServer } from "@modelcontextprotocol/server";

import type { Authenticator } from "../../auth/authenticator.ts";
import type { Clock, Principal, SetTimer } from "../../core/exchange.ts";
import type { Logger } from "../../telemetry/log.ts";
import type { KitSettings } from "./settings.ts";

/** The MCP transports an entity or tool may be enabled for (KO-005). */
export type TransportName = "stdio" | "http-sse" | "streamable-http";

/** All of them, in the order in which they are shown. */
export const transportNames: readonly TransportName[] = ["stdio", "http-sse", "streamable-http"];

/** Who calls, for one message: made by the edge per request, never kept longer than the request runs. */
export interface KitCaller {
  /** `anonymous` of src/core/exchange.ts where nobody is known; the principal of a stdio caller is `stdioPrincipal`. */
  readonly principal: Principal;
  /** The way it came. REST is not a transport of MCP, so `enabledTransports` does not bind it. */
  readonly via: TransportName | "rest";
  /** Aborted when nobody waits for the outcome any more. */
  readonly signal: AbortSignal;
  /** The session it belongs to, where there is one; log records show it shortened (KO-121). */
  readonly sessionId: string | undefined;
  /** Ties answer and log together; unique in this process. */
  readonly requestId: string;
  /** Has session id, request id and trace context on every line already. */
  readonly log: Logger;
  /** Where the protected-resource metadata of the server is, for challenges made inside the SDK (RFC 9728). */
  readonly resourceMetadataUrl?: string | undefined;
}

/** Why a known tool is refused to a caller (KO-097); unknown and hidden tools are never refused but not found. */
export interface ToolRefusal {
  readonly reason: "unauthorized" | "insufficient_scope";
  /** JSON-RPC code, outside -32768..-32000 (KO-098). */
  readonly code: number;
  /** Fit for the caller. */
  readonly message: string;
  /** All scopes the tool needs. */
  readonly requiredScopes: readonly string[];
}

/** What `judge` says about a tool name: unknown (also: not on this transport), allowed, or refused. */
export type AccessDecision =
  | { readonly kind: "unknown" }
  | { readonly kind: "allowed" }
  | { readonly kind: "refused"; readonly refusal: ToolRefusal };

/** The stable codes of failures inside an operation; REST answers with the status, tools with `isError` (KO-022). */
export const failureStatus = {
  validation_failed: 400,
  not_found: 404,
  conflict: 409,
  /** The row has another version than the caller thought (optimistic concurrency). */
  version_mismatch: 412,
  /** A custom tool said no in its own words. */
  tool_failed: 422,
  /** The store did not answer; the same call may succeed later. */
  store_failed: 503,
} as const;

/** One of the stable failure codes. */
export type FailureCode = keyof typeof failureStatus;

/** What was wrong with one field. */
export interface FieldIssue {
  /** Dotted path inside the arguments; empty for the whole. */
  readonly path: string;
  readonly message: string;
}

/** A failed operation, in words for the caller. */
export interface Failure {
  readonly code: FailureCode;
  readonly message: string;
  readonly issues?: readonly FieldIssue[];
}

/** One row of the capability document (KO-116). */
export interface CapabilityTool {
  readonly name: string;
  readonly description: string;
  /** Effective: override, declaration, server setting in this order. */
  readonly requireAuthentication: boolean;
  readonly requiredScopes: readonly string[];
  readonly enabledTransports: readonly TransportName[];
  /** The entity and operation it comes from; null for custom and generic tools. */
  readonly entity: string | null;
  readonly operation: string | null;
}

/** What happened in one call, for metrics and logs (KO-123). */
export interface CallEvent {
  readonly tool: string;
  readonly via: TransportName | "rest";
  readonly outcome: "ok" | "refused" | "cancelled" | "fault" | FailureCode;
  readonly durationMs: number;
}

/** What a new MCP connection is told about itself. */
export interface ConnectionContext {
  readonly via: TransportName;
  readonly sessionId: string | undefined;
  readonly log: Logger;
  /** `modern` only where the SDK's own entry says so. */
  readonly era: "legacy" | "modern";
}

/**
 * The core as the edge sees it. Everything here is safe for concurrent use and holds no session state; settings are
 * read at each call, so that a reload counts from the next request on (KO-142).
 */
export interface KitCore {
  /** The settings as they stand now. */
  settings(): KitSettings;
  /** Whether anonymous callers pass the door, because some exposed HTTP tool allows them (KO-096). */
  allowsAnonymous(): boolean;
  /** Decides on a tool by name; the one function behind listing, calling and the capability document. */
  authorize(caller: Pick<KitCaller, "principal" | "via">, tool: string): AccessDecision;
  /** Rows of the capability document: exactly what this caller is shown by tools/list over HTTP (KO-117). */
  capabilityTools(principal: Principal): readonly CapabilityTool[];
  /**
   * A fresh server for one connection, not connected yet. It lists what the caller of each message may call, refuses
   * the rest with a JSON-RPC error (`code`, `data.reason`, `data.requiredScopes`), and runs every call through the
   * executor. The transport has to give `{ authInfo: toAuthInfo(caller) }` as `extra` of each `onmessage`, because
   * a caller may come back to its session with more scopes; stdio gives none and is the local user.
   */
  createServer(connection: ConnectionContext): McpServer;
  /** Hands the caller to the SDK and back to us; holds no token. */
  toAuthInfo(caller: KitCaller): AuthInfo;
  /**
   * The Streamable HTTP profile on the base route, both eras, behind the door: the request has been authenticated,
   * limited and checked for Origin and Host. Answers 401 and 403 challenges per tool itself (KO-098).
   */
  streamable(request: Request, caller: KitCaller): Promise<Response>;
  /** REST behind the door; `path` is what follows `restRoute`, e.g. `/TrialSite/42`. */
  rest(request: Request, caller: KitCaller, path: string): Promise<Response>;
  /** Called after every call; the answer takes the listener off again. */
  onCall(listener: (facts: CallEvent) => void): () => void;
  /** Asks the store whether it works; never throws (KO-120). */
  storeHealth(): Promise<{ readonly ok: boolean; readonly reason?: string }>;
  /** Open Streamable sessions of 2025 clients, for health and boot report. */
  streamableSessions(): number;
  /** How many entities and tools are exposed, for the boot report (KO-122). */
  counts(): { readonly entities: number; readonly tools: number };
  /** OpenAPI paths of the REST operations; the edge adds its own routes (KO-143). */
  openApi(): Readonly<Record<string, unknown>>;
  /** Resolves when no call runs any more, or after so many milliseconds; then false. */
  drain(timeoutMs: number): Promise<boolean>;
  /** Ends Streamable sessions and closes the store. */
  close(): Promise<void>;
}

/** Facts about the process that settings depend on, injected so that tests can say what they want (KO-136). */
export interface KitEnvironment {
  /** Production or a container, unless the settings say otherwise. */
  readonly deployed: boolean;
  /** For messages: `production`, `container` or `development`. */
  readonly name: string;
}

/** What the edge gets from create.ts besides the core. */
export interface HttpEdgeDeps {
  readonly core: KitCore;
  readonly environment: KitEnvironment;
  /** Verifies bearer tokens; left out where nobody needs to log in or the host does it. */
  readonly authenticator?: Authenticator | undefined;
  /** The host's own login (KO-140): who sent this request, or undefined where the host does not know. */
  readonly identify?:
    | ((request: Request, peer: PeerDetails) => Principal | undefined | Promise<Principal | undefined>)
    | undefined;
  /** Authorization servers named in the protected-resource metadata (RFC 9728). */
  readonly authorizationServers?: readonly string[] | undefined;
  readonly log: Logger;
  readonly clock: Clock;
  readonly setTimer: SetTimer;
  /** New ids: 32 lower-case hex digits from a cryptographic source (KO-061). */
  readonly newId: () => string;
}

/** What only the host knows about a request; adapters fill it in. */
export interface PeerDetails {
  /** The address of the socket's other end. */
  readonly address?: string | undefined;
  /** Whether TLS ended at this process. */
  readonly encrypted?: boolean | undefined;
  /** Our own end's address, without a port, for the Host check of local binds (KO-112). */
  readonly localAddress?: string | undefined;
  /** The path prefix under which the host mounted the kit, taken off the request's path already (KO-052). */
  readonly prefix?: string | undefined;
  /** HTTP/2 knows no `Connection` header. */
  readonly httpVersion?: string | undefined;
  /** The host's own request object, with whatever its middleware put there, for `identify`. */
  readonly native?: unknown;
}

/** How full and how well the kit is (KO-119, KO-120). */
export interface KitHealth {
  readonly status: "healthy" | "degraded" | "stopping";
  readonly reason?: string;
  readonly activeConnections: number;
  readonly maxConnections: number;
  /** ISO 8601. */
  readonly lastChange: string;
  readonly heartbeatIntervalMs: number;
  readonly evictions: number;
}

/** The HTTP edge: `createHttpEdge(options: EdgeOptions): HttpEdge` in http/edge.ts. */
export interface HttpEdge {
  /** Answers a request on one of the kit's routes; undefined for a path that is not ours, so that hosts go on. */
  handle(request: Request, peer?: PeerDetails): Promise<Response | undefined>;
  health(): Promise<KitHealth>;
  /** Called on every open and close of a stream. */
  onHealth(listener: (health: KitHealth) => void): () => void;
  /** Metrics in the Prometheus text format (KO-123). */
  metrics(): string;
  /** OpenAPI paths of the core and of the edge's own routes, for the host's document (KO-143). */
  openApi(): Readonly<Record<string, unknown>>;
  /** The start-up report's section about MCP (KO-122). */
  bootReport(): string;
  /** What the operator should worry about at start-up (KO-101, KO-108, KO-111); core adds its own. */
  warnings(): readonly string[];
  /** KO-080: refuses new work, waits for calls, sends `end`, closes streams. */
  shutdown(): Promise<void>;
}
