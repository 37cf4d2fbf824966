import type { ServerResponse } from "node:http";
import type { GatewayError } from "../../errors.ts";
import { messageBytes } from "../../protocol/message.ts";
import { errorMessage } from "../../core/reply.ts";

/**
 * Answers with a gateway error: its HTTP status, a JSON-RPC error with `origin: "gateway"`, and `Retry-After` if the
 * details have `retryAfter` in seconds. An error without a status means that the client has gone: closes the connection.
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

/** Answers a request that is wrong as HTTP, such as 405 and 415, before its body is read. */
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
