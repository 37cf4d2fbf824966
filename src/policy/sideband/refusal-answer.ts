import type { ClientAnswer, SidebandRefusal, SidebandRefusalReason } from "./contract.ts";
import { type HeaderMap, toHeadersOut, withoutConnectionHeaders } from "./http-format.ts";
import { objectText } from "./payload.ts";
import { messageInBody, type PolicyResponse } from "./pdp-call.ts";

/** A refusal and the answer that the client gets. */
export interface RefusalAnswer {
  readonly answer: ClientAnswer;
  readonly refusal: SidebandRefusal;
}

/** A refusal before its form is chosen. */
export interface RefusalFacts {
  readonly reason: SidebandRefusalReason;
  readonly status: number;
  readonly message: string;
  readonly headers?: HeaderMap;
  readonly body?: string;
  readonly retryAfter?: number;
  readonly isUndecided?: true;
}

/** Asks for a JSON-RPC error to the request with this id, as JSON text. */
export interface JsonRpcForm {
  readonly id: string | undefined;
}

/** Formats a refusal: as it is, or as a JSON-RPC error with the same status (PA-168 to PA-176, PA-214). */
export function formatRefusalAnswer(facts: RefusalFacts, jsonRpc: JsonRpcForm | undefined): RefusalAnswer {
  const { reason, status, message, retryAfter, isUndecided, body = "" } = facts;
  const headers = new Map(withoutConnectionHeaders(facts.headers ?? new Map()));
  const refusal: SidebandRefusal = {
    reason,
    status,
    message,
    ...(retryAfter === undefined ? {} : { retryAfter }),
    ...(isUndecided === undefined ? {} : { isUndecided }),
  };
  if (jsonRpc === undefined)
    return { answer: { status, headers: toHeadersOut(headers), body: Buffer.from(body) }, refusal };
  for (const name of bodyHeaders) headers.delete(name);
  headers.set("content-type", ["application/json"]);
  const error = JSON.stringify({ code: jsonRpcCode(status), message });
  const text = objectText({ jsonrpc: '"2.0"', id: jsonRpc.id ?? "null", error });
  return { answer: { status, headers: toHeadersOut(headers), body: Buffer.from(text) }, refusal };
}

/** Headers that describe the body that a JSON-RPC error replaces (PA-170). */
const bodyHeaders = [
  "accept-ranges",
  "content-digest",
  "content-disposition",
  "content-encoding",
  "content-language",
  "content-location",
  "content-md5",
  "content-range",
  "content-type",
  "digest",
  "etag",
  "last-modified",
  "repr-digest",
  "trailer",
];

const codes: Readonly<Record<number, number>> = {
  404: -32_601,
  429: -32_000,
  500: -32_603,
  502: -32_000,
  503: -32_000,
  504: -32_000,
};

/** The JSON-RPC code of an HTTP status (PA-171 to PA-173). */
export function jsonRpcCode(status: number): number {
  return codes[status] ?? (status >= 500 ? -32_603 : -32_600);
}

/** The refusal while PingAuthorize asks for a pause (PA-114); only the header varies, not the body. */
export function rateLimited(seconds: number): RefusalFacts {
  return {
    reason: "rate_limited",
    status: 429,
    message: `Service temporarily unavailable. Retry after ${seconds} ${seconds === 1 ? "second" : "seconds"}.`,
    headers: new Map([
      ["content-type", ["application/json"]],
      ["retry-after", [String(seconds)]],
    ]),
    body: '{"code":"LIMIT_EXCEEDED","message":"The request exceeded the allowed rate limit. Please try after 1 second."}',
    retryAfter: seconds,
  };
}

/** The refusal when PingAuthorize is unavailable (PA-123 to PA-125). */
export const unavailable: RefusalFacts = {
  reason: "unavailable",
  status: 502,
  message: "Authorization service unavailable.",
  isUndecided: true,
};

/** The refusal when PingAuthorize rejects or redirects us (PA-126, PA-209). */
export const rejected: RefusalFacts = {
  reason: "rejected",
  status: 502,
  message: "Authorization could not be checked.",
};

/** The refusal when the answer of PingAuthorize cannot be understood or carried out. */
export const invalidAnswer: RefusalFacts = {
  reason: "invalid_answer",
  status: 502,
  message: "Authorization could not be checked.",
};

/** The policy's own refusal, with its message (PA-168). */
export function policyRefusal({ status, statusText, headers, body }: PolicyResponse): RefusalFacts {
  const message = messageInBody(body) ?? (statusText === "" ? "Access denied" : statusText);
  return { reason: "policy", status, message, body, ...(headers === undefined ? {} : { headers }) };
}
