import { formatChallenge } from "../../auth/resource-server.ts";
import type { ToolRefusal } from "../tools/tool-entry.ts";

/** What a refusal code means. */
interface HttpRefusalDefinition {
  readonly status: number;
  /** The default message. */
  readonly message: string;
  /** The default of Retry-After, in seconds. */
  readonly retryAfter?: number;
}

/** Every refusal of the HTTP endpoints, by its stable code (KO-141). */
export const httpRefusals = {
  invalid_jsonrpc: { status: 400, message: "The body is not a JSON-RPC 2.0 message or batch of them." },
  session_mismatch: { status: 400, message: "X-Mcp-Session and sessionId name different sessions." },
  https_required: { status: 400, message: "MCP HTTP+SSE requires HTTPS in production" },
  unauthorized: { status: 401, message: "Valid credentials are required." },
  insufficient_scope: { status: 403, message: "The credentials lack a required scope." },
  origin_refused: { status: 403, message: "This origin is not allowed." },
  host_refused: { status: 403, message: "This host name is not allowed." },
  session_principal_mismatch: { status: 403, message: "The session belongs to another principal." },
  not_found: { status: 404, message: "Not found." },
  unknown_session: { status: 404, message: "Unknown session; open a stream first." },
  method_not_allowed: { status: 405, message: "Method not allowed; see the Allow header." },
  too_large: { status: 413, message: "The body is larger than maxRequestBytes." },
  unsupported_media_type: { status: 415, message: "The body must be application/json." },
  rate_limited: { status: 429, message: "Too many requests; see the Retry-After header." },
  max_connections_exceeded: {
    status: 429,
    message: "The limit of maxConcurrentConnections is reached.",
    retryAfter: 5,
  },
  internal_error: { status: 500, message: "Internal error; the id is in the server's log." },
  authentication_unavailable: { status: 503, message: "Credentials cannot be verified at the moment.", retryAfter: 5 },
  shutting_down: { status: 503, message: "The server is shutting down.", retryAfter: 5 },
} as const satisfies Record<string, HttpRefusalDefinition>;

/** The code of a refusal. */
export type HttpRefusalCode = keyof typeof httpRefusals;

/** What a refusal says besides its code. */
export interface HttpRefusalDetails {
  readonly message?: string;
  /** Distinguishes cases that share a code; stable. */
  readonly reason?: string;
  /** The id of the log record. */
  readonly id?: string;
  readonly retryAfterSeconds?: number;
  readonly requiredScopes?: readonly string[];
  readonly headers?: Readonly<Record<string, string>>;
}

/** The response to a refused request: JSON with a stable code. */
export class HttpRefusal extends Response {
  readonly code: HttpRefusalCode;

  constructor(code: HttpRefusalCode, details: HttpRefusalDetails = {}) {
    const facts: HttpRefusalDefinition = httpRefusals[code];
    const { message = facts.message, reason, id, requiredScopes, headers } = details;
    const { retryAfterSeconds = facts.retryAfter } = details;
    // JSON leaves out what is undefined.
    super(JSON.stringify({ error: code, message, reason, id, requiredScopes }), {
      status: facts.status,
      headers: {
        "content-type": "application/json",
        "cache-control": "no-store",
        ...(retryAfterSeconds === undefined
          ? {}
          : { "retry-after": String(Math.max(1, Math.ceil(retryAfterSeconds))) }),
        ...headers,
      },
    });
    this.code = code;
  }
}

/** Creates the response to a refused request. */
export function httpRefusal(code: HttpRefusalCode, details?: HttpRefusalDetails): HttpRefusal {
  return new HttpRefusal(code, details);
}

/** The 401 or 403 response to a call that lacks a login or a scope, with its challenge (KO-098, RFC 6750). */
export function refuseToolCall(refusal: ToolRefusal, metadataUrl: string | undefined): HttpRefusal {
  const { reason, message, requiredScopes } = refusal;
  const challenge = formatChallenge({
    metadataUrl,
    ...(reason === "unauthorized" ? {} : { error: reason, description: message, scopes: requiredScopes }),
  });
  return httpRefusal(reason, { message, requiredScopes, headers: { "www-authenticate": challenge } });
}
