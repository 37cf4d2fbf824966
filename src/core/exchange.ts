import type { Clock } from "../lib/clock.ts";
import type { MaybePromise } from "../lib/is-promise.ts";
import type { Message } from "../protocol/message.ts";
import { type Era, type Revision, revisions } from "../protocol/revisions.ts";
import { Cancellation } from "./cancellation.ts";

/** The caller. All callers are `anonymous` unless a route authenticates them. */
export interface Principal {
  /** Unique across all authenticators of a gateway; not a secret. */
  readonly id: string;
  /** How the caller authenticated. */
  readonly kind: "anonymous" | "token" | "key" | "certificate";
  /** Scopes granted by the issuer or the configuration. */
  readonly scopes: ReadonlySet<string>;
  /** The claims of a token, the subject of a certificate or the labels of a key. */
  readonly claims: Readonly<Record<string, unknown>>;
  /** Wall time in milliseconds at which the credentials expire. */
  readonly expiresAt?: number;
  /**
   * The key under which limits are counted, if not `id`: callers without credentials share an id and are counted by
   * address.
   */
  readonly limitKey?: string;
}

export const anonymous: Principal = { id: "anonymous", kind: "anonymous", scopes: new Set(), claims: {} };

/** The name under which a caller's requests, sessions and everything else with a limit per principal are counted. */
export function limitKeyOf({ limitKey, id }: Principal): string {
  return limitKey ?? id;
}

/** How a message arrived or leaves: facts about the connection, kept apart from the message (SC-044). */
export type TransportContext =
  | { readonly type: "stdio"; readonly incarnation: string; readonly command?: string }
  | {
      readonly type: "http";
      readonly method: string;
      readonly path: string;
      /** The Host header, and whether the connection is encrypted. */
      readonly host?: string | undefined;
      readonly isSecure?: boolean;
      /** Lower-case headers that later steps may read; never credentials. */
      readonly headers: Readonly<Record<string, string>>;
      readonly status?: number;
      readonly peer?: string;
      /** The trace context of the request, as received (W3C Trace Context). */
      readonly trace?: TraceHeaders;
    }
  | {
      readonly type: "sse";
      readonly stream: string;
      readonly eventId?: string;
      readonly event?: string;
      readonly retry?: number;
      /** The POST that brought a message of an HTTP+SSE client. */
      readonly post?: HttpFacts;
    }
  | { readonly type: "in-process" };

/** What is known about the HTTP request that carried a message. */
export type HttpFacts = Pick<
  Extract<TransportContext, { readonly type: "http" }>,
  "method" | "path" | "host" | "isSecure" | "headers" | "peer" | "trace"
>;

/** The HTTP request that carried a message: its own, or the POST of an HTTP+SSE client. */
export function httpFactsOf(transport: TransportContext): HttpFacts | undefined {
  if (transport.type === "http") return transport;
  return transport.type === "sse" ? transport.post : undefined;
}

/** Maps our session id to the upstream's; nothing else does (SC-046). */
export interface SessionContext {
  /** The gateway's id. The one that the client knows is sealed and contains it. */
  readonly id: string;
  /** The session in log lines, labels and records; the id itself is a credential. */
  readonly label: string;
  /** The upstream's id, which no client ever sees. */
  readonly upstreamId: string | undefined;
  /** The name that the client gave itself in the handshake. */
  readonly clientName?: string | undefined;
  /** The HTTP request that carried the client's last message. */
  readonly lastRequest?: HttpFacts | undefined;
}

/** When a message arrived: monotonic milliseconds for durations, wall time for display only (SC-045). */
export interface Timing {
  readonly startedAt: number;
  readonly wallTime: number;
}

export { systemClock, systemTimer } from "../lib/clock.ts";
export type { Clock, SetTimer } from "../lib/clock.ts";

/** Receives the messages that the server sends while it answers a client's request. */
export interface ReplyStream {
  /** The upstream has started to stream, so start towards the client too, without waiting for the first message. */
  open(): void;
  /**
   * Writes one message; `label` is that of its exchange. The promise, if there is one, resolves when the client can take
   * more.
   */
  write(message: Message, label?: string): void | Promise<void>;
  /** Passes on an event whose data is not JSON, unchanged (SC-039). Absent where the transport has no events. */
  writeRaw?(data: Buffer, event: string | undefined): void | Promise<void>;
  /** The upstream closed its stream and wants to be polled (MCP 2025-11-25): ask the client to do the same. */
  pause?(retryMs: number): void;
}

/** The headers of W3C Trace Context. */
export interface TraceHeaders {
  readonly traceparent: string;
  readonly tracestate?: string;
}

/** A reference to a span, of this process or another. */
export interface TraceLink {
  /** 32 hexadecimal digits. */
  readonly traceId: string;
  /** 16 hexadecimal digits. */
  readonly spanId: string;
  readonly isSampled: boolean;
}

/** The member of a federation that a message goes to or comes from. */
export interface UpstreamTarget {
  readonly member: string;
  /** The target of the message under the server's own name; empty without a target. */
  readonly name: string;
  /** The JSON text of that name, where clients use another one. */
  readonly json?: Buffer | undefined;
  /** The message that was looked up: for one with another target this is not valid. */
  readonly message?: Message | undefined;
  /** For a list entry that an override changes: the JSON text as its server wrote it. */
  readonly definition?: string | undefined;
}

/** State that an exchange shares with all its copies. */
export interface Tracking {
  /** Where several servers are behind a route: the one that this exchange is about. */
  upstream?: UpstreamTarget | undefined;
  /**
   * Where several servers are behind a route: the owners of the resources that a `subscriptions/listen` request names.
   */
  subscriptions?: ReadonlyMap<string, UpstreamTarget | undefined>;
  /** Where several servers are behind a route: what the name of a list entry stands for. */
  entryTarget?: ((principal: Principal, kind: string, name: string) => UpstreamTarget | undefined) | undefined;
  /** The real tool, if the client called it through `call_tool`. */
  calledTool?: string;
  /** The entry among the pending requests; opaque to everything else. */
  entry: unknown;
  /** The span of the exchange, if it is traced. */
  trace?: TraceLink;
  /** The recorder's state. A field, because a WeakMap costs garbage collection time with every message. */
  record?: unknown;
}

/**
 * One message in transit, with everything known about it. The exchange of a request lives until its
 * answer. Messages that the other side sends until then have their own exchanges, with this one as their `parent`.
 */
export interface Exchange {
  /** The label of the message (SC-036); connects log lines, events, records, spans and error answers. */
  readonly id: string;
  readonly direction: "client-to-server" | "server-to-client";
  /** The message as it is now; interceptors may have changed it. */
  readonly message: Message;
  /** The message as it was received. */
  readonly original: Message;
  readonly route: string;
  readonly principal: Principal;
  readonly revision: Revision;
  readonly era: Era;
  readonly session: SessionContext | undefined;
  readonly transport: TransportContext;
  readonly timing: Timing;
  readonly parent: Exchange | undefined;
  /** @internal */
  readonly cancellation: Cancellation;
  /** @internal */
  readonly tracking: Tracking;
  /**
   * Trace context to send along over HTTP.
   * @internal
   */
  readonly traceHeaders?: TraceHeaders;
  /**
   * The source cannot be paused: the client's queue bound applies, not its reading speed.
   * @internal
   */
  readonly isUnpaced?: true;
  /**
   * For requests of a client: where to send messages that come before the answer.
   * @internal
   */
  readonly reply: ReplyStream | undefined;
}

// Not picked from Exchange, whose published declaration leaves internal members out.
interface Tracked {
  readonly tracking: Tracking;
}

/** What is known about something that passed, whether or not it contains a message. An exchange has all of it. */
export type MessageOrigin = Pick<
  Exchange,
  "id" | "direction" | "route" | "principal" | "session" | "revision" | "transport" | "parent"
> &
  Tracked;

/** What an exchange is made from. An exchange has all of it too, so one can be derived from another by spreading. */
export interface ExchangeOptions {
  readonly id: string;
  /** `client-to-server` unless given. */
  readonly direction?: Exchange["direction"];
  readonly message: Message;
  readonly route: string;
  readonly principal: Principal;
  readonly revision: Revision;
  readonly session?: SessionContext | undefined;
  readonly transport: TransportContext;
  readonly timing: Timing;
  readonly parent?: Exchange | undefined;
  /** A new one unless given. */
  readonly cancellation?: Cancellation;
  readonly traceHeaders?: TraceHeaders;
  readonly isUnpaced?: true;
  readonly reply?: ReplyStream | undefined;
}

/** Creates an exchange. This is the only place that does, so that all have the same shape. */
export function createExchange(options: ExchangeOptions): Exchange {
  const { message, revision, traceHeaders, isUnpaced } = options;
  const exchange: Exchange = {
    id: options.id,
    direction: options.direction ?? "client-to-server",
    message,
    original: message,
    route: options.route,
    principal: options.principal,
    revision,
    era: revisions[revision].era,
    session: options.session,
    transport: options.transport,
    timing: options.timing,
    parent: options.parent,
    cancellation: options.cancellation ?? new Cancellation(),
    tracking: { entry: undefined, upstream: undefined, entryTarget: undefined },
    reply: options.reply,
  };
  if (traceHeaders === undefined && isUnpaced === undefined) return exchange;
  return {
    ...exchange,
    ...(traceHeaders === undefined ? {} : { traceHeaders }),
    ...(isUnpaced === undefined ? {} : { isUnpaced }),
  };
}

/**
 * The server that a name in a list or a result belongs to, where several are behind the route: the one that listed it,
 * otherwise the one that the message is from.
 */
export function entryTargetOf(
  { tracking, principal }: Pick<Exchange, "principal"> & Tracked,
  kind: string,
  name: string,
) {
  const { upstream, entryTarget } = tracking;
  if (entryTarget === undefined) return undefined;
  return entryTarget(principal, kind, name) ?? (upstream && { member: upstream.member, name });
}

/** The timing of a message that has just arrived. */
export function timingOf(clock: Clock): Timing {
  return { startedAt: clock.now(), wallTime: clock.wall() };
}

/**
 * The configured route that a route's name stands for: a view is served like a route of its own, as `desk/triage`, but what
 * is configured for `desk` applies there too.
 */
export function configuredRoute(route: string): string {
  const end = route.indexOf("/");
  return end < 0 ? route : route.slice(0, end);
}

/** A copy of an exchange with another message. It shares `original` and `tracking`. */
export function withMessage(exchange: Exchange, message: Message): Exchange {
  return { ...exchange, message };
}

/** Headers by lower-case name. */
export type CredentialHeaders = Readonly<Record<string, string>>;

/**
 * Provides the credentials that the gateway sends to an upstream: its own, never those that the caller sent. They may
 * depend on the caller, and may have to be obtained first.
 */
export interface CredentialProvider {
  /** The headers for a request of a principal. Rejects with a GatewayError if none can be obtained. */
  headersFor(principal: Principal): MaybePromise<CredentialHeaders>;
  /** The upstream rejected these headers with 401. Returns whether newer ones may be obtained. */
  invalidate(principal: Principal, headers: CredentialHeaders): boolean;
}

/**
 * The short name of a principal: what its authenticator calls the caller, without saying which authenticator that was.
 * Names are for people. Two authenticators may give the same one, so nothing that protects anything may rely on it alone.
 *
 * | Full form (`principal.id`)        | Short name |
 * | --------------------------------- | ---------- |
 * | `https://issuer.example#ann`      | `ann`      |
 * | `https://issuer.example?client=ci`| `ci`       |
 * | `key:robots/ann`                  | `ann`      |
 * | `certificate:mesh/CN=ann`         | `CN=ann`   |
 * | `anonymous`                       | `anonymous`|
 */
export function principalNameOf(id: string): string {
  return form.exec(id)?.groups?.["name"] ?? id;
}

/** What comes before the name. An issuer has neither `#` nor `?`, the name of an authenticator no slash. */
const prefix = String.raw`https?://[^#?]*(?:#|\?client=)|(?:key|certificate):[^/]*/`;
const form = new RegExp(`^(?:${prefix})(?<name>.*)$`, "su");

/** An RE2 pattern of ids whose short name is this text; in a glob, `*` matches any text. */
export function principalNamePattern(name: string, isGlob: boolean): string {
  const parts = (isGlob ? name.split("*") : [name]).map((part) =>
    part.replaceAll(/[$()*+.?[\\\]^{|}]/gu, String.raw`\$&`),
  );
  return `^(?:${prefix})(?${isGlob && parts.length > 1 ? "is" : "s-i"}:${parts.join(".*")})$`;
}
