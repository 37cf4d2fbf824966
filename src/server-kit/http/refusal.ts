import { formatChallenge } from "../../auth/resource-server.ts";
import type { ToolRefusal } from "../contract/contract.ts";

/** What a refusal means: its HTTP status, and when it is given. */
interface HttpRefusalDefinition {
  readonly status: number;
  /** For people; the answer carries it unless whoever refuses says something more exact. */
  readonly message: string;
  /** Seconds until it makes sense to come back, where that is known beforehand. */
  readonly retryAfter?: number;
}

/** Every refusal that the HTTP endpoints of a kit give, by the code that clients may rely on (KO-141). */
export const httpRefusals = {
  invalid_jsonrpc: { status: 400, message: "The body is not a JSON-RPC 2.0 message or batch of them." },
  session_mismatch: { status: 400, message: "X-Mcp-Session and sessionId name different sessions." },
  https_required: { status: 400, message: "MCP HTTP+SSE requires HTTPS in production" },
  unauthorized: { status: 401, message: "This needs valid credentials." },
  insufficient_scope: { status: 403, message: "The credentials lack a scope that this needs." },
  origin_refused: { status: 403, message: "Pages of this origin may not call this server." },
  host_refused: { status: 403, message: "This server is not called by this name." },
  session_principal_mismatch: { status: 403, message: "The session belongs to somebody else." },
  not_found: { status: 404, message: "There is nothing here." },
  unknown_session: { status: 404, message: "There is no such session; open a stream first." },
  method_not_allowed: { status: 405, message: "This method is not served here; Allow names those that are." },
  too_large: { status: 413, message: "The body is larger than maxRequestBytes." },
  unsupported_media_type: { status: 415, message: "The body must be application/json." },
  rate_limited: { status: 429, message: "Too many requests; Retry-After says when to come back." },
  max_connections_exceeded: {
    status: 429,
    message: "As many streams are open as maxConcurrentConnections allows.",
    retryAfter: 5,
  },
  internal_error: { status: 500, message: "Something failed on this side; the id is in the log too." },
  authentication_unavailable: {
    status: 503,
    message: "Credentials cannot be checked at the moment.",
    retryAfter: 5,
  },
  shutting_down: { status: 503, message: "The server is shutting down.", retryAfter: 5 },
} as const satisfies Record<string, HttpRefusalDefinition>;

/** A code of the table above. */
export type HttpRefusalCode = keyof typeof httpRefusals;

/** What one refusal says besides its code. */
export interface HttpRefusalDetails {
  readonly message?: string;
  /** Tells apart cases that share a code; stable, like the codes. */
  readonly reason?: string;
  /** Ties the answer to a log record. */
  readonly id?: string;
  readonly retryAfterSeconds?: number;
  readonly requiredScopes?: readonly string[];
  readonly headers?: Readonly<Record<string, string>>;
}

/** The answer to a request that is refused: JSON with a stable code, never with anything internal. */
export class HttpRefusal extends Response {
  readonly code: HttpRefusalCode;

  constructor(code: HttpRefusalCode, details: HttpRefusalDetails = {}) {
    const facts: HttpRefusalDefinition = httpRefusals[code];
    const { message = facts.message, reason, id, requiredScopes, headers } = details;
    const { retryAfterSeconds = facts.retryAfter } = details;
    const body = {
      error: code,
      message,
      ...(reason === undefined ? {} : { reason }),
      ...(id === undefined ? {} : { id }),
      ...(requiredScopes === undefined ? {} : { requiredScopes }),
    };
    super(JSON.stringify(body), {
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

/** Makes such an answer. */
export function refuseRequest(code: HttpRefusalCode, details?: HttpRefusalDetails): HttpRefusal {
  return new HttpRefusal(code, details);
}

/** The 401 or 403 response to a call that lacks a login or a scope, with its challenge (KO-098, RFC 6750). */
export function refuseToolCall(refusal: ToolRefusal, metadataUrl: string | undefined): HttpRefusal {
  const { reason, message, requiredScopes } = refusal;
  const challenge = formatChallenge({
    metadataUrl,
    ...(reason === "unauthorized" ? {} : { error: reason, description: message, scopes: requiredScopes }),
  });
  return refuseRequest(reason, { message, requiredScopes, headers: { "www-authenticate": challenge } });
}
