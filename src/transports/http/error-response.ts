import type { ServerResponse } from "node:http";
import type { GatewayError } from "../../errors.ts";
import { messageBytes } from "../../protocol/message.ts";
import { errorMessage } from "../../core/reply.ts";

/**
 * Answers a request with an error of ours: the status of its row, an error response marked as the gateway's, and
 * `Retry-After` where the details say when to come back (`retryAfter`, in seconds). Where the error has no status
 * nobody is left to answer, and the connection is closed.
 */
export function writeGatewayError(response: ServerResponse, error: GatewayError): void {
  const { http, jsonrpc } = error.facts;
  if (http === undefined) {
    response.destroy();
    return;
  }
  const retryAfter = error.details?.["retryAfter"];
  const data = { ...error.details, code: error.code };
  writeError(response, http, jsonrpc ?? -32603, error.message, {
    data,
    headers: typeof retryAfter === "number" ? { "retry-after": String(retryAfter) } : {},
  });
}

/** Answers a request that is wrong as HTTP, before any message is looked at, such as 405 and 415. */
export function writeHttpError(
  response: ServerResponse,
  status: number,
  text: string,
  headers: Readonly<Record<string, string>> = {},
): void {
  writeError(response, status, -32000, text, { data: {}, headers });
}

function writeError(
  response: ServerResponse,
  status: number,
  code: number,
  text: string,
  extras: {
    readonly data: Readonly<Record<string, unknown>>;
    readonly headers: Readonly<Record<string, string>>;
  },
): void {
  if (response.headersSent || response.destroyed) return;
  const data = { ...extras.data, origin: "gateway" };
  const body = messageBytes(errorMessage(undefined, { code, message: text, data }));
  response.writeHead(status, {
    ...extras.headers,
    "content-type": "application/json",
    "content-length": body.length,
  });
  response.end(body);
}
