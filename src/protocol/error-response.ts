import { type ErrorCode, errorTable } from "../errors.ts";
import type { ParseFailure, RequestId } from "./message.ts";

/** The error response to a message that cannot be processed, for any transport. */
export interface ErrorResponse {
  /** The row of the error table. */
  readonly error: ErrorCode;
  /** The HTTP status. */
  readonly status: number;
  /** The JSON-RPC error code. */
  readonly code: number;
  readonly message: string;
  readonly data?: Readonly<Record<string, unknown>>;
  /** The id to echo; absent if the message had no readable id. */
  readonly id?: RequestId;
}

/** What an error response says beyond its row of the error table. */
export interface ErrorResponseOptions {
  readonly id?: RequestId | undefined;
  readonly data?: Readonly<Record<string, unknown>>;
  /** Use the second status of the error's row, if it has one. */
  readonly useAlternateStatus?: boolean;
}

/** Makes an error response with the status and code of its row in the error table. */
export function errorResponse(error: ErrorCode, message: string, options: ErrorResponseOptions = {}): ErrorResponse {
  const facts = errorTable[error];
  const status = (options.useAlternateStatus === true ? facts.alternateHttp?.status : undefined) ?? facts.http;
  const { jsonrpc } = facts;
  if (status === undefined || jsonrpc === undefined) {
    throw new RangeError(`${error} has no error response`);
  }
  return {
    error,
    status,
    code: jsonrpc,
    message,
    ...(options.data === undefined ? {} : { data: options.data }),
    ...(options.id === undefined ? {} : { id: options.id }),
  };
}

/** The response to bytes that are not a message: 413 for a body over the limit, otherwise 400. */
export function parseFailureResponse(failure: ParseFailure): ErrorResponse {
  const { id, limit } = failure;
  const data = { reason: failure.reason, ...(limit === undefined ? {} : { limit }) };
  if (failure.reason === "json.size") return errorResponse("too_large", failure.message, { id, data });
  const error = failure.code === -32700 ? "parse_error" : "invalid_message";
  return errorResponse(error, failure.message, { id, data });
}
