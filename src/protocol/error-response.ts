import { type ErrorCode, errorTable } from "../errors.ts";
import type { ParseFailure, RequestId } from "./message.ts";

/** An answer that refuses a message: everything its writer needs, whatever the transport. */
export interface ErrorResponse {
  /** The row of the error table that this is a case of. */
  readonly error: ErrorCode;
  readonly status: number;
  /** The JSON-RPC error code. */
  readonly code: number;
  readonly message: string;
  readonly data?: Readonly<Record<string, unknown>>;
  /** The id to echo; absent where the refused message had none that could be read. */
  readonly id?: RequestId;
}

/** What may be added to a refusal, and which of the two statuses of its row it takes. */
export interface ErrorResponseOptions {
  readonly id?: RequestId | undefined;
  readonly data?: Readonly<Record<string, unknown>>;
  /** Takes the second status of the error's row, where it has one. */
  readonly useAlternateStatus?: boolean;
}

/** Makes a refusal with the status and the code that the error table gives. */
export function errorResponse(error: ErrorCode, message: string, details: ErrorResponseOptions = {}): ErrorResponse {
  const facts = errorTable[error];
  const status = (details.useAlternateStatus === true ? facts.alternateHttp?.status : undefined) ?? facts.http;
  const { jsonrpc } = facts;
  if (status === undefined || jsonrpc === undefined) {
    throw new RangeError(`${error} is not an error that a message can be refused with`);
  }
  return {
    error,
    status,
    code: jsonrpc,
    message,
    ...(details.data === undefined ? {} : { data: details.data }),
    ...(details.id === undefined ? {} : { id: details.id }),
  };
}

/** The refusal of bytes that are no message: 413 for a body over the limit, 400 for everything else. */
export function parseFailureResponse(failure: ParseFailure): ErrorResponse {
  const { id, limit } = failure;
  const data = { reason: failure.reason, ...(limit === undefined ? {} : { limit }) };
  if (failure.reason === "json.size") return errorResponse("too_large", failure.message, { id, data });
  const error = failure.code === -32700 ? "parse_error" : "invalid_message";
  return errorResponse(error, failure.message, { id, data });
}
