import type { ClientAnswer, SidebandRefusal, SidebandRefusalReason } from "./contract.ts";
import { type HeaderMap, toHeadersOut, withoutConnectionHeaders } from "./http-format.ts";
import { objectText } from "./payload.ts";
import { messageInBody, type PolicyResponse } from "./pdp-answer.ts";

/** An answer that refuses, and the facts behind it. */
export interface RefusalAnswer {
  readonly answer: ClientAnswer;
  readonly refusal: SidebandRefusal;
}

/** What a refusal is made of, before its form is chosen. */
export interface RefusalFacts {
  readonly reason: SidebandRefusalReason;
  readonly status: number;
  readonly message: string;
  readonly headers?: HeaderMap;
  readonly body?: string;
  readonly retryAfter?: number;
  readonly isUndecided?: true;
}

/** Asked for an answer as a JSON-RPC error to the request with this id, as JSON text; undefined where it had none. */
export interface JsonRpcForm {
  readonly id: string | undefined;
}

const noHeaders: HeaderMap = new Map();

/** Writes a refusal: as it is, or as a JSON-RPC error with the same status (PA-168 to PA-176, PA-214). */
export function formatRefusalAnswer(facts: RefusalFacts, jsonRpc: JsonRpcForm | undefined): RefusalAnswer {
  const { reason, status, message, retryAfter, isUndecided } = facts;
  const headers = new Map(withoutConnectionHeaders(facts.headers ?? noHeaders));
  const refusal: SidebandRefusal = {
    reason,
    status,
    message,
    ...(retryAfter === undefined ? {} : { retryAfter }),
    ...(isUndecided === undefined ? {} : { isUndecided }),
  };
  if (jsonRpc === undefined) {
    const answer = { status, headers: toHeadersOut(headers), body: Buffer.from(facts.body ?? "") };
    return { answer, refusal };
  }
  for (const name of bodyHeaders) headers.delete(name);
  headers.set("content-type", ["application/json"]);
  const body = Buffer.from(jsonRpcError(status, message, jsonRpc));
  return { answer: { status, headers: toHeadersOut(headers), body }, refusal };
}

/** Headers that describe the body that a JSON-RPC error takes the place of (PA-170). */
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

function jsonRpcError(status: number, message: string, { id }: JsonRpcForm): string {
  const error = JSON.stringify({ code: jsonRpcCode(status), message });
  return objectText([
    ["jsonrpc", '"2.0"'],
    ["id", id ?? "null"],
    ["error", error],
  ]);
}

const codes: Readonly<Record<number, number>> = {
  404: -32_601,
  429: -32_000,
  500: -32_603,
  502: -32_000,
  503: -32_000,
  504: -32_000,
};

/** The JSON-RPC code for an HTTP status (PA-171 to PA-173). */
export function jsonRpcCode(status: number): number {
  return codes[status] ?? (status >= 500 ? -32_603 : -32_600);
}

/** The answer while PingAuthorize wants a pause (PA-114); its words never change, only the header does. */
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

/** The answer when nobody could be asked (PA-123 to PA-125). */
export const unavailable: RefusalFacts = {
  reason: "unavailable",
  status: 502,
  message: "Authorization service unavailable.",
  isUndecided: true,
};

/** The answer when PingAuthorize does not accept us, or sends us elsewhere (PA-126, PA-209). */
export const rejected: RefusalFacts = {
  reason: "rejected",
  status: 502,
  message: "Authorization could not be checked.",
};

/** The answer when what PingAuthorize said cannot be understood or carried out. */
export const invalidAnswer: RefusalFacts = {
  reason: "invalid_answer",
  status: 502,
  message: "Authorization could not be checked.",
};

/** The policy's own refusal, with the words it gives for it (PA-168). */
export function policyRefusal({ status, statusText, headers, body }: PolicyResponse): RefusalFacts {
  const message = messageInBody(body) ?? (statusText === "" ? "Access denied" : statusText);
  return { reason: "policy", status, message, body, ...(headers === undefined ? {} : { headers }) };
}
