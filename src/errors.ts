/** The level at which an error is logged. */
export type ErrorLevel = "debug" | "info" | "warn" | "error";

/** One row of the error table. */
export interface ErrorFacts {
  /** HTTP status; undefined if there is no HTTP response. */
  readonly http: number | undefined;
  /** A second HTTP status, and when it is used. */
  readonly alternateHttp?: { readonly status: number; readonly when: string };
  /** JSON-RPC error code; undefined if there is no JSON-RPC error. */
  readonly jsonrpc: number | undefined;
  /** Exit code if this error ends the process. */
  readonly exitCode?: number;
  /** Whether the same message may succeed later. Whether repeating it is safe depends on its method. */
  readonly retryable: boolean;
  readonly level: ErrorLevel;
  /** When the error occurs and what the response reveals, for the reference page. */
  readonly description: string;
}

/** A row as written below: logged at `info` and not retryable unless it says otherwise. */
type ErrorRow = Omit<ErrorFacts, "retryable" | "level"> & Partial<ErrorFacts>;

// Positive codes are decisions of the gateway: MCP 2026-07-28, "Error codes", reserves -32768 to -32000 for JSON-RPC,
// the specification and its SDKs. Failures of the gateway itself are -32603.
const rows = {
  parse_error: {
    http: 400,
    jsonrpc: -32700,
    description: "The body is not valid JSON in UTF-8.",
  },
  invalid_message: {
    http: 400,
    jsonrpc: -32600,
    description: "The body is JSON, but not a JSON-RPC message that the protocol revision allows here.",
  },
  header_mismatch: {
    http: 400,
    jsonrpc: -32020,
    description: "A header that mirrors the body of a modern request is missing, malformed or differs from the body.",
  },
  missing_capability: {
    http: 400,
    jsonrpc: -32021,
    description: "The request needs a client capability that the client did not declare; `data` names it.",
  },
  unsupported_revision: {
    http: 400,
    jsonrpc: -32022,
    description: "The request names a protocol revision that is not supported here; `data` lists the supported ones.",
  },
  method_not_found: {
    http: 200,
    alternateHttp: { status: 404, when: "the revision is modern" },
    jsonrpc: -32601,
    description: "The protocol revision has no such method, or the server did not advertise the capability for it.",
  },
  invalid_params: {
    http: 200,
    alternateHttp: { status: 400, when: "a modern request lacks its required `_meta` keys" },
    jsonrpc: -32602,
    description: "The parameters are not valid for the method.",
  },
  bad_request: {
    http: 400,
    jsonrpc: -32000,
    description:
      "The HTTP request is malformed, took too long to arrive, or is ambiguous, for example by several Host or Authorization headers.",
  },
  tls_failed: {
    http: undefined,
    jsonrpc: undefined,
    description:
      "The TLS handshake failed, for example because the client has no certificate, or does not trust the gateway's.",
  },
  host_not_allowed: {
    http: 403,
    jsonrpc: -32000,
    level: "warn",
    description: "The Host header names a host that `listen.allowedHosts` and `listen.publicUrl` do not allow.",
  },
  origin_not_allowed: {
    http: 403,
    jsonrpc: -32000,
    level: "warn",
    description: "The Origin header names an origin that `listen.allowedOrigins` and `cors.origins` do not allow.",
  },
  method_not_allowed: {
    http: 405,
    jsonrpc: -32000,
    description: "The endpoint does not accept this HTTP method.",
  },
  not_acceptable: {
    http: 406,
    jsonrpc: -32000,
    description: "The Accept header of a GET does not allow an event stream.",
  },
  stream_conflict: {
    http: 409,
    jsonrpc: -32000,
    description: "The session already has an open GET stream.",
  },
  unsupported_media_type: {
    http: 415,
    jsonrpc: -32000,
    description: "The body of a POST is not `application/json` in UTF-8, or is compressed.",
  },
  unauthenticated: {
    http: 401,
    jsonrpc: 4010,
    description: "The request has no valid credentials. Over HTTP, `WWW-Authenticate` says how to get them.",
  },
  insufficient_scope: {
    http: 403,
    jsonrpc: 4031,
    description: "The credentials lack a scope. `data` names it, and over HTTP `WWW-Authenticate` does too.",
  },
  policy_denied: {
    http: 200,
    alternateHttp: { status: 403, when: "`refusalStatus` is `forbidden`" },
    jsonrpc: 4030,
    description:
      "The policy denied the message. The response contains the reason of the decision, never its obligations.",
  },
  policy_unavailable: {
    http: 503,
    jsonrpc: 5030,
    retryable: true,
    level: "warn",
    description: "Authorization is unavailable; request denied. Fails closed unless you set `failOpen: true`.",
  },
  forbidden: {
    http: 403,
    jsonrpc: undefined,
    description: "A page of another origin called the admin API, which only its own console may do.",
  },
  not_found: {
    http: 404,
    jsonrpc: undefined,
    description: "Nothing is served at the path, or the admin API has no record with this id.",
  },
  session_missing: {
    http: 400,
    jsonrpc: -32000,
    description: "The request needs a session but names none.",
  },
  session_unknown: {
    http: 404,
    jsonrpc: -32001,
    description: "The session does not exist or has ended; the client must start a new one.",
  },
  too_large: {
    http: 413,
    jsonrpc: -32000,
    description: "The message exceeds the configured limit; `data` contains its size and the limit.",
  },
  rate_limited: {
    http: 429,
    jsonrpc: 4290,
    retryable: true,
    description: "The caller exceeded its rate limit, or the upstream answered 429. `Retry-After` says when to retry.",
  },
  overloaded: {
    http: 503,
    jsonrpc: 4291,
    retryable: true,
    level: "warn",
    description:
      "The gateway reached one of its own limits, or the upstream answered 503. `Retry-After` says when to retry.",
  },
  shutting_down: {
    http: 503,
    jsonrpc: 5031,
    retryable: true,
    description:
      "The gateway is shutting down. New requests are not accepted, and `Retry-After` says when to retry; a running call was cut off and may have been executed.",
  },
  upstream_unreachable: {
    http: 502,
    jsonrpc: -32603,
    retryable: true,
    level: "warn",
    description: "The upstream server cannot be reached. The response contains no text from the upstream.",
  },
  upstream_invalid: {
    http: 502,
    jsonrpc: -32603,
    level: "warn",
    description: "The upstream server sent something that is not a valid MCP message. None of it is forwarded.",
  },
  upstream_timeout: {
    http: 504,
    jsonrpc: -32603,
    retryable: true,
    level: "warn",
    description: "The upstream server did not respond in time. It may still have acted.",
  },
  cancelled: {
    http: undefined,
    jsonrpc: undefined,
    level: "debug",
    description: "The peer disconnected or cancelled. There is no response, and it does not count as a failure.",
  },
  store_failed: {
    http: 503,
    jsonrpc: -32603,
    retryable: true,
    level: "error",
    description: "The recorder or the state store failed, and the configuration says to refuse requests then.",
  },
  config_invalid: {
    http: undefined,
    jsonrpc: undefined,
    exitCode: 2,
    level: "error",
    description: "The configuration is invalid. The message says where, what was expected and what was found.",
  },
  internal: {
    http: 500,
    jsonrpc: -32603,
    level: "error",
    description: "A bug in the gateway. The message is hidden; `data.exchange` is the id of the log entry.",
  },
} as const satisfies Record<string, ErrorRow>;

/** The code of an error; the list is closed. */
export type ErrorCode = keyof typeof rows;

/** The only table of errors, their HTTP statuses and their JSON-RPC codes. */
export const errorTable: Readonly<Record<ErrorCode, ErrorFacts>> = mapRows(rows);

function mapRows<Code extends string>(table: Readonly<Record<Code, ErrorRow>>): Readonly<Record<Code, ErrorFacts>> {
  const defaults = { retryable: false, level: "info" } as const;
  const entries = Object.entries<ErrorRow>(table).map(([code, row]) => [code, { ...defaults, ...row }]);
  // The entries have the same keys as the rows.
  return Object.fromEntries(entries) as Record<Code, ErrorFacts>;
}

/** What is known about an error besides its code and message. */
export interface GatewayErrorOptions {
  /** Sent to the peer in `data`. */
  readonly details?: Readonly<Record<string, unknown>>;
  /** Logged, never sent. */
  readonly cause?: unknown;
}

/**
 * The only error class: a code of the table, a message that may be sent to the peer, and optional details.
 *
 * @example
 * throw new GatewayError("rate_limited", "too many requests", { details: { retryAfter: 2 } });
 */
export class GatewayError extends Error {
  readonly code: ErrorCode;
  readonly details: Readonly<Record<string, unknown>> | undefined;

  constructor(code: ErrorCode, message: string, extras: GatewayErrorOptions = {}) {
    super(message, "cause" in extras ? { cause: extras.cause } : undefined);
    this.name = "GatewayError";
    this.code = code;
    this.details = extras.details;
  }

  /** The row of the error table. */
  get facts(): ErrorFacts {
    return errorTable[this.code];
  }

  /** Converts anything thrown: an abort becomes `cancelled`, other errors `internal` with their message hidden. */
  static from(thrown: unknown): GatewayError {
    if (thrown instanceof GatewayError) return thrown;
    if (thrown instanceof Error && thrown.name === "AbortError") {
      return new GatewayError("cancelled", "the request was cancelled", { cause: thrown });
    }
    return new GatewayError("internal", "internal error", { cause: thrown });
  }
}
