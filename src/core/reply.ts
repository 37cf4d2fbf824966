import { type ErrorCode, errorTable, GatewayError } from "../errors.ts";
import type { Exchange } from "./exchange.ts";
import { type Challenge, noReply, type Reply } from "./pipeline.ts";
import { synthesizeMessage, synthesizeResult } from "./synthesize.ts";
import { type ErrorMessage, type ErrorResponse, type RequestId, type ResultMessage } from "../protocol/message.ts";
import type { Era } from "../protocol/revisions.ts";

/** The `error` member of an error response. */
export interface ErrorBody {
  readonly code: number;
  readonly message: string;
  /** Anything that JSON can carry; left out when undefined. */
  readonly data?: unknown;
}

/**
 * Makes an error response that echoes the id exactly as it was written. Without an id the member is left out:
 * MCP 2025-11-25, "Base protocol", makes it optional where it could not be read, and null was never a valid id.
 */
export function errorMessage(id: RequestId | undefined, error: ErrorBody): ErrorMessage {
  const { code, message, data } = error;
  const member = id === undefined ? "" : `"id":${id.json},`;
  const made = synthesizeMessage(`{"jsonrpc":"2.0",${member}"error":${JSON.stringify({ code, message, data })}}`);
  if (made.kind !== "error") throw new GatewayError("internal", "built an invalid error response");
  return made;
}

/** Creates a response with the given JSON text as its result, and the id exactly as written in the request. */
export function resultMessage(id: RequestId, resultJson: string): ResultMessage {
  return synthesizeResult(`{"jsonrpc":"2.0","id":${id.json},"result":${resultJson}}`);
}

/**
 * Answers an exchange with an error of the gateway. A request gets an error response with its id, marked as the
 * gateway's (SC-064), and other messages one without id, which is written where the transport has a response for it (MCP
 * 2025-11-25, "Sending Messages to the Server"). Errors without a JSON-RPC code get only the status. A decision may bring a
 * JSON-RPC code of its own.
 */
export function errorReply(
  exchange: Exchange,
  error: GatewayError,
  code: number | undefined = error.facts.jsonrpc,
): Reply {
  const { message } = exchange;
  const status = statusOf(error.code, exchange.era);
  const challenge = challengeOf(error);
  const http = {
    ...(status === undefined ? {} : { status }),
    ...retryAfterIn(error),
    ...(challenge === undefined ? {} : { challenge }),
  };
  if (code === undefined) return status === undefined ? noReply : { message: undefined, ...http };
  if (message.kind !== "request") return unansweredReply(exchange, error, code, http);
  return { message: gatewayErrorMessage(exchange, message.id, error, code), ...http };
}

/** The reply to a message that gets no answer, refused with an HTTP status; without one, nothing tells its sender. */
export function unansweredReply(
  exchange: Exchange,
  error: GatewayError,
  code: number,
  http: Omit<Reply, "message">,
): Reply {
  if (http.status === undefined || http.status < 400) return noReply;
  return { message: undefined, refusal: gatewayErrorMessage(exchange, undefined, error, code), ...http };
}

/** The reply to a message that was rejected before it became an exchange. */
export function rejectionReply(error: GatewayError, id: RequestId | undefined): Reply {
  const { http, jsonrpc = -32603 } = error.facts;
  const data = { ...error.details, origin: "gateway", code: error.code };
  const message = errorMessage(id, { code: jsonrpc, message: error.message, data });
  return { message, ...(http === undefined ? {} : { status: http }), ...retryAfterIn(error) };
}

/** The challenge for an error that says the caller's credentials do not suffice (`scopes`). */
export function challengeOf({ code, message, details }: GatewayError): Challenge | undefined {
  if (code !== "unauthenticated" && code !== "insufficient_scope") return undefined;
  const scopes = details?.["scopes"];
  return {
    error: code === "unauthenticated" ? "invalid_token" : code,
    scopes: Array.isArray(scopes) ? scopes.filter((scope) => typeof scope === "string") : [],
    description: message,
  };
}

function retryAfterIn({ details }: GatewayError): { readonly retryAfter?: number } {
  const seconds = details?.["retryAfter"];
  return typeof seconds === "number" ? { retryAfter: seconds } : {};
}

/** The error response for a gateway error in an exchange. */
export function gatewayErrorMessage(
  exchange: Exchange,
  id: RequestId | undefined,
  error: GatewayError,
  code: number,
): ErrorMessage {
  // The exchange's id leads from the answer to the log line.
  const data = { ...error.details, origin: "gateway", code: error.code, exchange: exchange.id };
  return errorMessage(id, { code, message: error.message, data });
}

/** The reply to a message that the parser or the checks of its revision refused. */
export function refusalReply(refusal: ErrorResponse): Reply {
  const { id, code, message, status } = refusal;
  const data = { ...refusal.data, origin: "gateway", code: refusal.error };
  return { message: errorMessage(id, { code, message, data }), status };
}

/** MCP 2026-07-28, Streamable HTTP: an unknown method is answered with 404; earlier revisions answer in band. */
function statusOf(code: ErrorCode, era: Era): number | undefined {
  const { http, alternateHttp } = errorTable[code];
  return code === "method_not_found" && era === "modern" ? (alternateHttp?.status ?? http) : http;
}
