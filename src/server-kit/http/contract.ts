// What the HTTP edge needs from the core of a kit, and what it gives to the kit and its hosts.
import type { AuthInfo, McpServer } from "@modelcontextprotocol/server";

import type { Authenticator } from "../../auth/authenticator.ts";
import type { Clock, Principal, SetTimer } from "../../core/exchange.ts";
import type { Logger } from "../../telemetry/log.ts";
import type { TransportName } from "../entity/entity.ts";
import type { KitEnvironment, KitSettings } from "../settings/settings.ts";
import type { CallEvent } from "../tools/executor.ts";
import type { CapabilityTool } from "../tools/tool-catalog.ts";
import type { KitCaller } from "../tools/tool-entry.ts";
import type { HttpRefusal } from "./refusal.ts";

/** A new MCP connection. */
export interface ConnectionContext {
  readonly via: TransportName;
  readonly sessionId: string | undefined;
  readonly log: Logger;
  /** `modern` for the SDK's 2026-07-28 handler, `legacy` for any connection with an initialize handshake. */
  readonly era: "legacy" | "modern";
}

/** The rate limits of a caller of Streamable HTTP. */
export interface StreamableAdmission {
  /** Refuses a caller that opens sessions and streams too fast. */
  readonly open: () => HttpRefusal | undefined;
  /** Counts the further calls of a batch. */
  readonly takeMore: (calls: number) => HttpRefusal | undefined;
}

/** How many sessions there are. */
export interface SessionCounts {
  readonly open: number;
  /** Those with a running request or an open stream; the others make room for new ones. */
  readonly inUse: number;
  /** What is kept for clients that resume a stream. */
  readonly resumeBytes: number;
}

/** Entities, tools and stores of a kit. Settings are read at each call, so that a reload applies at once (KO-142). */
export interface KitCore {
  settings(): KitSettings;
  /** Whether anonymous callers may call some tool over HTTP (KO-096). */
  allowsAnonymous(): boolean;
  /** The tools of the capability document: what tools/list shows this principal over HTTP (KO-117). */
  capabilityTools(principal: Principal): readonly CapabilityTool[];
  /**
   * Creates the server of one connection, not connected yet. HTTP transports pass `toAuthInfo(caller)` as `authInfo`
   * of each message, because a caller may return to its session with more scopes.
   */
  createServer(connection: ConnectionContext): McpServer;
  /** Hands a caller to the SDK. Contains no token. */
  toAuthInfo(caller: KitCaller): AuthInfo;
  /** Serves Streamable HTTP, both eras, for an authenticated and admitted request. */
  streamable(request: Request, caller: KitCaller, admit: StreamableAdmission): Promise<Response>;
  /** Serves REST for an authenticated and admitted request; `path` is what follows `restRoute`. */
  rest(request: Request, caller: KitCaller, path: string): Promise<Response>;
  /** Calls the listener after each call; returns a function that removes it. */
  onCall(listener: (event: CallEvent) => void): () => void;
  /** Whether the store works; never rejects (KO-120). */
  storeHealth(): Promise<{ readonly ok: boolean; readonly reason?: string }>;
  /** The Streamable HTTP sessions of 2025 clients. */
  streamableSessions(): SessionCounts;
  /** How many entities and tools are exposed (KO-122). */
  counts(): { readonly entities: number; readonly tools: number };
  /** OpenAPI paths of the REST operations (KO-143). */
  openApi(): Readonly<Record<string, unknown>>;
  /** Resolves to true when no call is running, or to false after the timeout. */
  drain(timeoutMs: number): Promise<boolean>;
  /** Closes Streamable HTTP sessions and the store. */
  close(): Promise<void>;
}

/** Identifies the user of a request by the host's own login; undefined if the host does not know (KO-140). */
export type IdentifyRequest = (
  request: Request,
  peer: PeerDetails,
) => Principal | undefined | Promise<Principal | undefined>;

export interface HttpEdgeDeps {
  readonly core: KitCore;
  readonly environment: KitEnvironment;
  /** Verifies bearer tokens. */
  readonly authenticator?: Authenticator | undefined;
  readonly identify?: IdentifyRequest | undefined;
  /** Authorization servers named in the protected-resource metadata (RFC 9728). */
  readonly authorizationServers?: readonly string[] | undefined;
  readonly log: Logger;
  readonly clock: Clock;
  readonly setTimer: SetTimer;
  /** Creates ids: 32 lower-case hex digits from a cryptographic source (KO-061). */
  readonly newId: () => string;
}

/** What only the host knows about a request; adapters fill it in. */
export interface PeerDetails {
  /** The remote address of the socket. */
  readonly address?: string | undefined;
  /** Whether TLS ended at this process. */
  readonly encrypted?: boolean | undefined;
  /** The local address of the socket, for the Host check on loopback (KO-112). */
  readonly localAddress?: string | undefined;
  /** The path under which the host mounted the kit, already removed from the request's path (KO-052). */
  readonly prefix?: string | undefined;
  readonly httpVersion?: string | undefined;
  /** The host's own request object, for `identify`. */
  readonly native?: unknown;
}

/** The health of a kit (KO-119, KO-120). */
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

/** The HTTP side of a kit. */
export interface HttpEdge {
  /** Answers a request on one of the kit's routes; undefined for any other path. */
  handle(request: Request, peer?: PeerDetails): Promise<Response | undefined>;
  health(): Promise<KitHealth>;
  /** Calls the listener whenever a stream opens or closes; returns a function that removes it. */
  onHealth(listener: (health: KitHealth) => void): () => void;
  /** Metrics in the Prometheus text format (KO-123). */
  metrics(): string;
  /** OpenAPI paths of all HTTP routes, for the host's document (KO-143). */
  openApi(): Readonly<Record<string, unknown>>;
  /** The section about MCP in the host's start-up report (KO-122). */
  bootReport(): string;
  /** What the operator should fix (KO-101, KO-108, KO-111). */
  warnings(): readonly string[];
  /** Refuses new work, waits for running calls, ends and closes all streams (KO-080). */
  shutdown(): Promise<void>;
}
