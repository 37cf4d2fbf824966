import { type ErrorCode, errorTable, GatewayError } from "../errors.ts";
import type { Exchange } from "./exchange.ts";
import { type Challenge, noReply, type Reply } from "./pipeline.ts";
import {
  defaultLimits,
  type ErrorMessage,
  type Message,
  type RequestId,
  type ResultMessage,
} from "../protocol/message.ts";
import { parseText } from "../protocol/parse.ts";
import type { ErrorResponse } from "../protocol/error-response.ts";
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
  const made = build(`{"jsonrpc":"2.0",${member}"error":${JSON.stringify({ code, message, data })}}`);
  if (made.kind !== "error") throw new GatewayError("internal", "the answer is no error response");
  return made;
}

/** Makes a response with the given JSON text as its result, and the id exactly as the request wrote it. */
export function resultMessage(id: RequestId, resultJson: string): ResultMessage {
  const made = build(`{"jsonrpc":"2.0","id":${id.json},"result":${resultJson}}`);
  if (made.kind !== "result") throw new GatewayError("internal", "the answer is no result");
  return made;
}

/**
 * Answers an exchange with an error of ours. A request gets an error response with its id, marked as the gateway's
 * (SC-064); every other message, and an error that has no JSON-RPC form, gets no message but the status alone.
 * A decision may have a JSON-RPC code of its own in place of the table's.
 */
export function errorReply(
  exchange: Exchange,
  error: GatewayError,
  code: number | undefined = error.facts.jsonrpc,
): Reply {
  const { message } = exchange;
  const status = statusOf(error.code, exchange.era);
  const retryAfter = retryAfterOf(error);
  const challenge = challengeOf(error);
  const http = {
    ...(status === undefined ? {} : { status }),
    ...(retryAfter === undefined ? {} : { retryAfter }),
    ...(challenge === undefined ? {} : { challenge }),
  };
  if (message.kind !== "request" || code === undefined) {
    return status === undefined ? noReply : { message: undefined, ...http };
  }
  return { message: gatewayErrorMessage(exchange, message.id, error, code), ...http };
}

/** What a caller is asked to show, where an error of ours says that its credentials do not suffice (`scopes`). */
export function challengeOf({ code, message, details }: GatewayError): Challenge | undefined {
  if (code !== "unauthenticated" && code !== "insufficient_scope") return undefined;
  const scopes = details?.["scopes"];
  return {
    error: code === "unauthenticated" ? "invalid_token" : code,
    scopes: Array.isArray(scopes) ? scopes.filter((scope) => typeof scope === "string") : [],
    description: message,
  };
}

/** Seconds after which whoever met an error may come back, where its details say so (`retryAfter`). */
export function retryAfterOf({ details }: GatewayError): number | undefined {
  const seconds = details?.["retryAfter"];
  return typeof seconds === "number" ? seconds : undefined;
}

/** The error response for an error of ours in an exchange, with the id of whichever message it answers. */
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

/** The answer that a refusal asks for, marked as the gateway's; without an id where the refused message had none. */
export function refusalReply(refusal: ErrorResponse): Reply {
  const { id, code, message, status } = refusal;
  const data = { ...refusal.data, origin: "gateway", code: refusal.error };
  return { message: errorMessage(id, { code, message, data }), status };
}

/** MCP 2026-07-28, Streamable HTTP: an unknown method is answered 404 there, and in band before. */
function statusOf(code: ErrorCode, era: Era): number | undefined {
  const { http, alternateHttp } = errorTable[code];
  return code === "method_not_found" && era === "modern" ? (alternateHttp?.status ?? http) : http;
}

// What we make ourselves is not bounded by what we accept, and an id that an observing route let pass is echoed.
const ownLimits = { ...defaultLimits, maxBytes: Number.MAX_SAFE_INTEGER };

function build(json: string): Message {
  const outcome = parseText(json, { revision: "unknown", mode: "observe", limits: ownLimits });
  if (outcome.ok && outcome.form === "single") return outcome.message;
  throw new GatewayError("internal", "the answer is no message", {
    cause: outcome.ok ? "a batch" : outcome.failure,
  });
}
