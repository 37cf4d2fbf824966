import type { Clock, SetTimer } from "../../core/exchange.ts";
import type { Breaker } from "../pdp/breaker.ts";
import type { PdpClient, PdpTlsOptions } from "../pdp/client.ts";
import type { SidebandSettings } from "./settings.ts";

/**
 * Decides about HTTP requests and their responses. Whoever drives it (the Kong plugin, the gateway) knows nothing of
 * the decision point behind it: facts go in, what to do comes out (PA-007). It keeps no request data; what the
 * second question needs of the first is handed back as plain strings (PA-009).
 */
export interface HttpPolicyEngine {
  /** May this request go on, and with which changes? Never rejects, unless `call.signal` was aborted or by a bug. */
  evaluateRequest(request: HttpRequestFacts, call?: EngineCall): Promise<RequestOutcome>;
  /** What does the client get for this upstream response? `stored` is what the request's outcome left. */
  evaluateResponse(response: HttpResponseFacts, stored: StoredContext, call?: EngineCall): Promise<ResponseOutcome>;
  /** Whether a response has to be asked about at all; if not, nothing of it needs to be read (PA-085). */
  readonly hasResponsePhase: boolean;
  /** Closes idle connections; questions under way still get their answers. */
  close(): void;
}

/** What goes with a question (PA-212). */
export interface EngineCall {
  /** Aborted when nobody waits for the outcome any more. */
  readonly signal?: AbortSignal;
  /** Most milliseconds for everything, retries and pauses included; longer counts as a timeout. */
  readonly budgetMs?: number;
}

/** Headers as HTTP stacks hand them out. Values are strings or lists of strings; anything else is refused (PA-039). */
export type HeadersIn = Readonly<Record<string, unknown>>;

/** Header values by lower-case name. */
export type HeadersOut = Readonly<Record<string, readonly string[]>>;

/** An HTTP request as the client sent it. Nothing is encoded or shortened yet: that is the engine's work. */
export interface HttpRequestFacts {
  readonly clientAddress: string;
  readonly clientPort: number;
  readonly method: string;
  /** Scheme, host and port as the client used them, that is behind proxies the forwarded ones. */
  readonly scheme: string;
  readonly host: string;
  readonly port: number;
  /** Percent-encoded or not; what a URL cannot hold is encoded (PA-045). */
  readonly path: string;
  /** The raw query without `?`; empty or undefined where there is none. */
  readonly query?: string | undefined;
  readonly headers: HeadersIn;
  /** The most header values that could be read; as many of them mean that some may be missing, which is refused. */
  readonly headerLimit?: number;
  readonly body: Buffer;
  /** Such as `1.1`, `2` or `"1.1"`. */
  readonly httpVersion: number | string;
  /** The client's certificate and those above it, as PEM, the client's first; undefined where there is none. */
  readonly clientCertificate?: string | undefined;
  /** Claims of a token that was verified already; sent as `access_token`, which PingAuthorize knows. */
  readonly accessToken?: Readonly<Record<string, unknown>> | undefined;
}

/** An upstream's response before the client sees it. */
export interface HttpResponseFacts {
  readonly status: number;
  readonly headers: HeadersIn;
  readonly headerLimit?: number;
  readonly body: Buffer;
}

/**
 * What the question about a request leaves for the one about its response: JSON texts, to be kept with the request
 * under these names (PA-131, PA-162) and handed back as they are.
 */
export interface StoredContext {
  readonly paz_original_request: string;
  readonly paz_state?: string;
  readonly paz_mcp?: string;
}

/** The answer to the question about a request. */
export type RequestOutcome =
  | {
      readonly action: "continue";
      /** Whether the policy allowed it, or nobody could be asked and the gate is open by configuration. */
      readonly decision: "allow" | "fail-open";
      /** To be carried out in this order (PA-211). */
      readonly changes: readonly RequestChange[];
      /** To be kept for the response; undefined when there will be no question about it. */
      readonly store: StoredContext | undefined;
    }
  | { readonly action: "answer"; readonly answer: ClientAnswer; readonly refusal: SidebandRefusal };

/** One thing to change about the request before it goes upstream. */
export type RequestChange =
  /** Each of these headers gets exactly these values. */
  | { readonly type: "set-headers"; readonly headers: HeadersOut }
  | { readonly type: "clear-header"; readonly name: string }
  | { readonly type: "set-method"; readonly method: string }
  /** Percent-encoded, beginning with a slash. */
  | { readonly type: "set-path"; readonly path: string }
  /** Raw, without `?`; empty removes it. */
  | { readonly type: "set-query"; readonly query: string }
  | { readonly type: "set-body"; readonly body: Buffer };

/** The answer to the question about a response. */
export type ResponseOutcome =
  /** The client gets the upstream's response as it is. */
  | { readonly action: "pass"; readonly decision: "skipped" | "fail-open" }
  | {
      readonly action: "answer";
      readonly answer: ClientAnswer;
      /** Upstream headers that the client must not get. */
      readonly clearHeaders: readonly string[];
      /** Present when the client gets an error in place of the response. */
      readonly refusal?: SidebandRefusal;
      /** Whether the body is the upstream's own, byte for byte. */
      readonly isOriginalBody: boolean;
    };

/** A whole HTTP answer for the client. `content-length`, `transfer-encoding` and `connection` are never in it. */
export interface ClientAnswer {
  readonly status: number;
  readonly headers: HeadersOut;
  readonly body: Buffer;
}

/** Why the client gets an answer of ours; also the `reason` of `mcp_denied_total` (PA-188). */
export type SidebandRefusalReason =
  /** The policy refused. */
  | "policy"
  /** The decision point could not be reached, failed, or the breaker is open after that. */
  | "unavailable"
  /** The decision point asked for a pause (429). */
  | "rate_limited"
  /** The decision point answered with a status that is passed on. */
  | "passthrough"
  /** The decision point refused us (4xx) or sent us elsewhere (3xx). */
  | "rejected"
  /** Its answer could not be understood or carried out. */
  | "invalid_answer"
  /** The payload is over the limit. */
  | "too_large"
  /** The request cannot be put to the decision point: headers, certificate, batch, ambiguous JSON. */
  | "bad_request"
  /** We could not write the payload. */
  | "internal";

/** The facts behind an answer that refuses. */
export interface SidebandRefusal {
  readonly reason: SidebandRefusalReason;
  readonly status: number;
  /** For people and agents: the policy's own words where it has some. */
  readonly message: string;
  /** Seconds, where waiting helps. */
  readonly retryAfter?: number;
  /** Nobody decided, and `fail_open` would have let it through. */
  readonly isUndecided?: true;
}

/** Which of the two questions. */
export type EnginePhase = "access" | "response";

/** One log entry: a flat object, ready to be written as one line of JSON (PA-133). */
export interface SidebandLogEntry {
  readonly plugin: string;
  readonly phase: EnginePhase;
  /** Without user information. */
  readonly service_url: string;
  readonly level: "debug" | "info" | "warn" | "error";
  readonly msg: string;
  readonly [field: string]: unknown;
}

/** Where telemetry goes; used only with `enable_otel` (PA-139). Names and labels are those of `metrics.ts`. */
export interface SidebandTelemetry {
  count(name: string, labels: Readonly<Record<string, string>>): void;
  observe(name: string, value: number, labels: Readonly<Record<string, string>>): void;
  gauge(name: string, value: number, labels: Readonly<Record<string, string>>): void;
  startSpan(name: string): SidebandSpan;
}

/** One sideband call, from before the first attempt until after the last. */
export interface SidebandSpan {
  end(outcome: {
    readonly attributes: Readonly<Record<string, string | number>>;
    /** Present when the call failed. */
    readonly error?: string;
  }): void;
}

/** What an engine needs from outside. */
export interface SidebandEngineDeps {
  readonly clock: Clock;
  readonly setTimer: SetTimer;
  readonly log: (entry: SidebandLogEntry) => void;
  /** Needed for anything to be measured with `enable_otel`. */
  readonly telemetry?: SidebandTelemetry | undefined;
  /** Name in log entries; the Kong plugin's unless given. */
  readonly plugin?: string;
  /** `User-Agent` of the calls; the Kong plugin's unless given (PA-058). */
  readonly userAgent?: string;
  /** Shared by all engines of one configured plugin (PA-105); an own one unless given. */
  readonly breaker?: Breaker;
  /** The real HTTP client unless given. */
  readonly client?: PdpClient;
  /** Told of every further attempt after a failure, to be counted. */
  readonly onRetry?: (() => void) | undefined;
  /** Own authorities, and a certificate to show the decision point (PA-064). */
  readonly tls?: PdpTlsOptions | undefined;
  /** The shared secret as it is now; the one of the settings unless given. */
  readonly secret?: () => string | Promise<string>;
  /** Methods that can be set on the upstream request; those that Kong knows unless given (PA-210). */
  readonly knownMethods?: ReadonlySet<string>;
}

/** Makes an engine. */
export type CreateSidebandEngine = (settings: SidebandSettings, surroundings: SidebandEngineDeps) => HttpPolicyEngine;
