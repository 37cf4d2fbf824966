/** How loudly an error is logged where it is answered. */
export type ErrorLevel = "debug" | "info" | "warn" | "error";

/** One row of the error table: what a code means to a peer, to an operator and to the log. */
export interface ErrorFacts {
  /** HTTP status of the answer; undefined where there is no HTTP answer. */
  readonly http: number | undefined;
  /** A second HTTP status and the case in which it is used. */
  readonly alternateHttp?: { readonly status: number; readonly when: string };
  /** JSON-RPC error code; undefined where the answer carries no JSON-RPC error. */
  readonly jsonrpc: number | undefined;
  /** Exit code of the command line where this error ends the process. */
  readonly exitCode?: number;
  /** Whether the same message may succeed later. Whether it is safe to repeat depends on its method. */
  readonly retryable: boolean;
  readonly level: ErrorLevel;
  /** When the error occurs and what the answer reveals, for the reference page. */
  readonly description: string;
}

// Codes above zero are the gateway's decisions: MCP 2026-07-28, "Error codes", keeps -32768 to -32000 for
// JSON-RPC, the specification and its SDKs. Faults of the gateway itself are -32603.
const table = {
  parse_error: {
    http: 400,
    jsonrpc: -32700,
    retryable: false,
    level: "info",
    description: "The body is not UTF-8 JSON.",
  },
  invalid_message: {
    http: 400,
    jsonrpc: -32600,
    retryable: false,
    level: "info",
    description: "The body is JSON but not a JSON-RPC message that this revision allows here.",
  },
  header_mismatch: {
    http: 400,
    jsonrpc: -32020,
    retryable: false,
    level: "info",
    description: "A header that mirrors the body of a modern request is missing, malformed or different from it.",
  },
  missing_capability: {
    http: 400,
    jsonrpc: -32021,
    retryable: false,
    level: "info",
    description: "The request needs a capability that the client did not declare; the data names it.",
  },
  unsupported_revision: {
    http: 400,
    jsonrpc: -32022,
    retryable: false,
    level: "info",
    description: "The request names a protocol revision that is not served here; the data lists those that are.",
  },
  method_not_found: {
    http: 200,
    alternateHttp: { status: 404, when: "the revision is a modern one" },
    jsonrpc: -32601,
    retryable: false,
    level: "info",
    description: "The method is unknown in this revision, or needs a capability that was not advertised.",
  },
  invalid_params: {
    http: 200,
    alternateHttp: { status: 400, when: "a modern request lacks its required `_meta` keys" },
    jsonrpc: -32602,
    retryable: false,
    level: "info",
    description: "The parameters do not fit the method.",
  },
  unauthenticated: {
    http: 401,
    jsonrpc: 4010,
    retryable: false,
    level: "info",
    description: "No valid credentials. Over HTTP a challenge header says how to get some.",
  },
  insufficient_scope: {
    http: 403,
    jsonrpc: 4031,
    retryable: false,
    level: "info",
    description: "The credentials lack a scope. The data names it, and over HTTP the challenge header.",
  },
  policy_denied: {
    http: 200,
    alternateHttp: { status: 403, when: "the route is configured to refuse by status" },
    jsonrpc: 4030,
    retryable: false,
    level: "info",
    description: "The policy refused the message. The answer has the reason of the decision, never its obligations.",
  },
  policy_unavailable: {
    http: 503,
    jsonrpc: 5030,
    retryable: true,
    level: "warn",
    description: "No decision could be had in time. Refused unless the route is configured to let pass.",
  },
  session_missing: {
    http: 400,
    jsonrpc: -32000,
    retryable: false,
    level: "info",
    description: "A request that needs a session names none.",
  },
  session_unknown: {
    http: 404,
    jsonrpc: -32001,
    retryable: false,
    level: "info",
    description: "The named session does not exist or has ended; the client starts a new one.",
  },
  too_large: {
    http: 413,
    jsonrpc: -32000,
    retryable: false,
    level: "info",
    description: "The message is larger than the configured limit; the answer gives size and limit.",
  },
  rate_limited: {
    http: 429,
    jsonrpc: 4290,
    retryable: true,
    level: "info",
    description: "The caller sent more than its share. Retry-After says when to come back.",
  },
  overloaded: {
    http: 503,
    jsonrpc: 4291,
    retryable: true,
    level: "warn",
    description: "The gateway is at one of its own bounds. Retry-After says when to come back.",
  },
  shutting_down: {
    http: 503,
    jsonrpc: 5031,
    retryable: true,
    level: "info",
    description: "The gateway is draining and takes no new work. Retry-After says when to come back.",
  },
  upstream_unreachable: {
    http: 502,
    jsonrpc: -32603,
    retryable: true,
    level: "warn",
    description: "The upstream server could not be reached. The answer holds no text from upstream.",
  },
  upstream_invalid: {
    http: 502,
    jsonrpc: -32603,
    retryable: false,
    level: "warn",
    description: "The upstream server answered with something that is no MCP message. None of it is passed on.",
  },
  upstream_timeout: {
    http: 504,
    jsonrpc: -32603,
    retryable: true,
    level: "warn",
    description: "The upstream server did not answer in time. It may still have acted.",
  },
  cancelled: {
    http: undefined,
    jsonrpc: undefined,
    retryable: false,
    level: "debug",
    description: "The peer went away or cancelled. Nobody is left to answer; never counted as a fault.",
  },
  store_failed: {
    http: 503,
    jsonrpc: -32603,
    retryable: true,
    level: "error",
    description: "The recorder or the state store failed and the configuration says to refuse in that case.",
  },
  config_invalid: {
    http: undefined,
    jsonrpc: undefined,
    exitCode: 2,
    retryable: false,
    level: "error",
    description: "The configuration is wrong: the place in the file, what was expected, what was found.",
  },
  internal: {
    http: 500,
    jsonrpc: -32603,
    retryable: false,
    level: "error",
    description: "A bug in the gateway. The message is hidden; an id ties the answer to the log entry.",
  },
} as const satisfies Record<string, ErrorFacts>;

/** Every error the gateway can make; the list is closed. */
export type ErrorCode = keyof typeof table;

/** The one table of errors: no status or JSON-RPC number of an error stands anywhere else. */
export const errorTable: Readonly<Record<ErrorCode, ErrorFacts>> = table;

/** What may be known about an error besides its code and message. */
export interface GatewayErrorOptions {
  /** Facts that may be shown to the peer. */
  readonly details?: Readonly<Record<string, unknown>>;
  /** What led to this error; for the log, never sent. */
  readonly cause?: unknown;
}

/** The only error class: a code of the closed table, a message fit for the peer, and optional details. */
export class GatewayError extends Error {
  readonly code: ErrorCode;
  readonly details: Readonly<Record<string, unknown>> | undefined;

  constructor(code: ErrorCode, message: string, extras: GatewayErrorOptions = {}) {
    super(message, "cause" in extras ? { cause: extras.cause } : undefined);
    this.name = "GatewayError";
    this.code = code;
    this.details = extras.details;
  }

  /** The row of the table for this error. */
  get facts(): ErrorFacts {
    return errorTable[this.code];
  }

  /**
   * Makes a GatewayError of whatever was thrown: itself if it is one, `cancelled` for an abort, else `internal`
   * with the message hidden and the original kept as cause.
   */
  static from(thrown: unknown): GatewayError {
    if (thrown instanceof GatewayError) return thrown;
    if (thrown instanceof Error && thrown.name === "AbortError") {
      return new GatewayError("cancelled", "the request was cancelled", { cause: thrown });
    }
    return new GatewayError("internal", "internal error", { cause: thrown });
  }
}
