import type { TraceLink } from "../../core/exchange.ts";
import type { Clock, SetTimer } from "../../lib/clock.ts";
import type { Breaker } from "../pdp/call.ts";
import type { PdpClient, PdpTlsOptions } from "../pdp/client.ts";
import type { SidebandSettings } from "./settings.ts";

/**
 * Evaluates HTTP requests and their responses for the Kong plugin and the gateway, which know nothing about PingAuthorize
 * (PA-007). It keeps no request data: what the response phase needs goes through the caller as plain strings (PA-009).
 */
export interface HttpPolicyEngine {
  /** Rejects only if `call.signal` was aborted. */
  evaluateRequest(request: HttpRequestFacts, call?: EngineCall): Promise<RequestOutcome>;
  /** `stored` is what the request's outcome left. */
  evaluateResponse(response: HttpResponseFacts, stored: StoredContext, call?: EngineCall): Promise<ResponseOutcome>;
  /** If false, responses need not be read at all (PA-085). */
  readonly hasResponsePhase: boolean;
  /** Closes idle connections; evaluations in progress still finish. */
  close(): void;
}

/** The context of one evaluation (PA-212). */
export interface EngineCall {
  /** Aborted when the caller goes away. */
  readonly signal?: AbortSignal;
  /** Maximum total milliseconds, including retries and pauses. */
  readonly budgetMs?: number;
}

/** Headers from an HTTP stack. Values are strings or arrays of strings; anything else is refused (PA-039). */
export type HeadersIn = Readonly<Record<string, unknown>>;

/** Header values by lower-case name. */
export type HeadersOut = Readonly<Record<string, readonly string[]>>;

/** An HTTP request as the client sent it; encoding and truncation are up to the engine. */
export interface HttpRequestFacts {
  readonly clientAddress: string;
  readonly clientPort: number;
  readonly method: string;
  /** Scheme, host and port as the client used them; behind proxies the forwarded ones. */
  readonly scheme: string;
  readonly host: string;
  readonly port: number;
  /** Percent-encoded or not (PA-045). */
  readonly path: string;
  /** Raw, without `?`. */
  readonly query?: string | undefined;
  readonly headers: HeadersIn;
  /** The most header values that can be read; if there are as many, some may be missing, and the request is refused. */
  readonly headerLimit?: number;
  readonly body: Buffer;
  /** Such as `1.1`, `2` or `"1.1"`. */
  readonly httpVersion: number | string;
  /** The client's certificate chain as PEM, its own first. */
  readonly clientCertificate?: string | undefined;
  /** The claims of a verified token, sent as `access_token`. */
  readonly accessToken?: Readonly<Record<string, unknown>> | undefined;
}

/** An upstream's response before the client sees it. */
export interface HttpResponseFacts {
  readonly status: number;
  readonly headers: HeadersIn;
  readonly headerLimit?: number;
  readonly body: Buffer;
}

/** What the request phase leaves for the response phase: JSON texts, kept under these names (PA-131, PA-162). */
export interface StoredContext {
  readonly paz_original_request: string;
  readonly paz_state?: string;
  readonly paz_mcp?: string;
  /** The `traceparent` that both phases belong to, with `enable_otel`. */
  readonly paz_trace?: string;
}

/** What to do with a request: forward it, perhaps changed, or answer it. */
export type RequestOutcome =
  | {
      readonly action: "continue";
      readonly decision: "allow" | "fail-open";
      /** Carried out in this order (PA-211). */
      readonly changes: readonly RequestChange[];
      /** For the response phase; undefined if there is none. */
      readonly store: StoredContext | undefined;
    }
  | { readonly action: "answer"; readonly answer: ClientAnswer; readonly refusal: SidebandRefusal };

/** A change to the upstream request. */
export type RequestChange =
  /** Each of these headers gets exactly these values. */
  | { readonly type: "set-headers"; readonly headers: HeadersOut }
  | { readonly type: "clear-header"; readonly name: string }
  | { readonly type: "set-method"; readonly method: string }
  /** Percent-encoded, with a leading slash. */
  | { readonly type: "set-path"; readonly path: string }
  /** Raw, without `?`; empty removes it. */
  | { readonly type: "set-query"; readonly query: string }
  | { readonly type: "set-body"; readonly body: Buffer };

/** What to do with a response: pass it on, or answer with another. */
export type ResponseOutcome =
  /** The upstream's response is passed on unchanged. */
  | { readonly action: "pass"; readonly decision: "skipped" | "fail-open" }
  | {
      readonly action: "answer";
      readonly answer: ClientAnswer;
      /** Upstream headers to remove. */
      readonly clearHeaders: readonly string[];
      /** Set if the client gets an error instead of the response. */
      readonly refusal?: SidebandRefusal;
      /** Whether the body is the upstream's own, byte for byte. */
      readonly isOriginalBody: boolean;
    };

/**
 * A complete HTTP answer for the client, without `transfer-encoding` and `connection`. It has a `content-length` only in
 * answer to HEAD, where the body does not tell it.
 */
export interface ClientAnswer {
  readonly status: number;
  readonly headers: HeadersOut;
  readonly body: Buffer;
}

/** Why a message was refused; also the label `reason` of `mcp_denied_total` (PA-188). */
export type SidebandRefusalReason =
  /** The policy denied it. */
  | "policy"
  /** PingAuthorize failed or was unreachable, or the breaker is open after that. */
  | "unavailable"
  /** PingAuthorize asked for a pause (429). */
  | "rate_limited"
  /** PingAuthorize answered with a status that is passed on. */
  | "passthrough"
  /** PingAuthorize rejected us (4xx) or redirected us (3xx). */
  | "rejected"
  /** Its answer could not be understood or carried out. */
  | "invalid_answer"
  /** The payload is over the limit. */
  | "too_large"
  /** The message has no payload: bad headers, certificate, batch or ambiguous JSON. */
  | "bad_request"
  /** The payload could not be written. */
  | "internal";

/** A refusal. */
export interface SidebandRefusal {
  readonly reason: SidebandRefusalReason;
  readonly status: number;
  /** The policy's own message if it has one. */
  readonly message: string;
  /** Seconds to wait. */
  readonly retryAfter?: number;
  /** There was no decision, so `fail_open` would have let the message pass. */
  readonly isUndecided?: true;
}

/** The phase that an entry or a metric is about. */
export type EnginePhase = "access" | "response";

/** One log entry: a flat object, ready to be written as one line of JSON (PA-133). */
export interface SidebandLogEntry {
  readonly plugin: string;
  readonly phase: EnginePhase;
  /** Without credentials. */
  readonly service_url: string;
  readonly level: "debug" | "info" | "warn" | "error";
  readonly msg: string;
  readonly [field: string]: unknown;
}

/** Receives metrics and spans, with `enable_otel` only (PA-139). Names and labels are those of `sidebandMetrics`. */
export interface SidebandTelemetry {
  count(name: string, labels: Readonly<Record<string, string>>): void;
  observe(name: string, value: number, labels: Readonly<Record<string, string>>): void;
  gauge(name: string, value: number, labels: Readonly<Record<string, string>>): void;
  /** Starts a span; as a child of the caller's if there is one. */
  startSpan(name: string, parent?: TraceLink): SidebandSpan;
}

/** The span of one query with all its attempts. */
export interface SidebandSpan {
  /** Continues the trace in a request (W3C Trace Context); absent if the telemetry makes no spans. */
  readonly traceparent?: string;
  end(outcome: {
    readonly attributes: Readonly<Record<string, string | number>>;
    /** Set if the query failed. */
    readonly error?: string;
  }): void;
}

/** What the engine needs of its host. */
export interface SidebandEngineDeps {
  readonly clock: Clock;
  readonly setTimer: SetTimer;
  readonly log: (entry: SidebandLogEntry) => void;
  readonly telemetry?: SidebandTelemetry | undefined;
  /** Name in log entries; defaults to the Kong plugin's. */
  readonly plugin?: string;
  /** `User-Agent` of the queries; defaults to the Kong plugin's (PA-058). */
  readonly userAgent?: string;
  /** Shared by all engines of one configured plugin (PA-105). */
  readonly breaker?: Breaker;
  /** For tests; defaults to the HTTP client. */
  readonly client?: PdpClient;
  /** Called before each retry. */
  readonly onRetry?: (() => void) | undefined;
  /** PA-064. */
  readonly tls?: PdpTlsOptions | undefined;
  /** The current shared secret; defaults to the one in the settings. */
  readonly secret?: () => string | Promise<string>;
  /** Methods that can be set on the upstream request; defaults to those that Kong knows (PA-210). */
  readonly knownMethods?: ReadonlySet<string>;
}

/** Creates an engine for one set of settings. */
export type CreateSidebandEngine = (settings: SidebandSettings, deps: SidebandEngineDeps) => HttpPolicyEngine;
