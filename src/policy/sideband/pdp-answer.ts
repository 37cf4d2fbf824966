import { isUtf8 } from "node:buffer";

import { fromSidebandHeaders, type HeaderMap } from "./http-format.ts";
import { isJsonRecord, memberText, parseJson } from "./payload.ts";

/** What the decision point made of a request. `missing` says which members it left out; these mean no change. */
export type AccessAnswer =
  | { readonly kind: "allow"; readonly allowed: AllowedRequest }
  | { readonly kind: "deny"; readonly refusal: PolicyResponse }
  /** Not JSON, or JSON of another shape: nothing was decided. */
  | { readonly kind: "invalid" }
  /** Something was decided, but it cannot be carried out: never let through (PA-208). */
  | { readonly kind: "unusable" };

/** The request as the policy wants it. Undefined members were not in the answer. */
export interface AllowedRequest {
  readonly sourceIp: unknown;
  readonly sourcePort: unknown;
  readonly certificate: unknown;
  readonly method: string | undefined;
  readonly url: string | undefined;
  readonly headers: HeaderMap | undefined;
  /** Missing and `null` are the same (PA-083). */
  readonly body: string | undefined;
  /** JSON text, as it came; undefined where there is none (PA-071). */
  readonly state: string | undefined;
}

/** A response as the policy wrote it. */
export interface PolicyResponse {
  readonly status: number;
  /** The words for the status; empty where it gave none. */
  readonly statusText: string;
  readonly headers: HeaderMap | undefined;
  readonly body: string;
}

/** Reads the answer to a question about a request (PA-066 to PA-071, PA-208). */
export function parseAccessAnswer(body: Buffer): AccessAnswer {
  const value = isUtf8(body) ? parseJson(body.toString("utf8")) : undefined;
  if (!isJsonRecord(value)) return { kind: "invalid" };
  const { response } = value;
  if (response !== undefined && response !== null) {
    const denied = readDecidedResponse(response);
    return typeof denied === "string" ? { kind: "unusable" } : { kind: "deny", refusal: denied };
  }
  const { method, url, headers, body: newBody } = value;
  const map = isAbsent(headers) ? undefined : fromSidebandHeaders(headers);
  if (!isAbsent(headers) && map === undefined) return { kind: "invalid" };
  if (!isTextOrAbsent(method) || !isTextOrAbsent(url) || !isTextOrAbsent(newBody)) return { kind: "invalid" };
  const state = isAbsent(value.state) ? undefined : memberText(body, "state");
  return {
    kind: "allow",
    allowed: {
      sourceIp: value.source_ip,
      sourcePort: value.source_port,
      certificate: value.client_certificate,
      method: method ?? undefined,
      url: url ?? undefined,
      headers: map,
      body: newBody ?? undefined,
      state,
    },
  };
}

/** What the decision point made of a response; the kinds are those of {@link AccessAnswer}. */
export type ResponseResult =
  | { readonly kind: "result"; readonly result: PolicyResponse }
  | { readonly kind: "invalid" }
  | { readonly kind: "unusable" };

/** Reads the answer to a question about a response (PA-092, PA-094, PA-208). */
export function parseResponseResult(body: Buffer): ResponseResult {
  const value = isUtf8(body) ? parseJson(body.toString("utf8")) : undefined;
  if (!isJsonRecord(value)) return { kind: "invalid" };
  const result = readDecidedResponse(value);
  if (result === "status") return { kind: "unusable" };
  return result === "shape" ? { kind: "invalid" } : { kind: "result", result };
}

/** The response, or which part of it is unusable. */
function readDecidedResponse(value: unknown): PolicyResponse | "status" | "shape" {
  if (!isJsonRecord(value)) return "shape";
  const status = toStatus(value.response_code);
  if (status === undefined) return "status";
  const { body, headers, response_status: text } = value;
  const map = isAbsent(headers) ? undefined : fromSidebandHeaders(headers);
  if (!isTextOrAbsent(body) || (!isAbsent(headers) && map === undefined)) return "shape";
  return { status, statusText: typeof text === "string" ? text : "", headers: map, body: body ?? "" };
}

/** A status from 100 to 599, written as a number or as text (PA-208). */
function toStatus(code: unknown): number | undefined {
  if (typeof code === "string" && !/^\d{3}$/u.test(code)) return undefined;
  if (typeof code !== "string" && typeof code !== "number") return undefined;
  const status = Number(code);
  return Number.isInteger(status) && status >= 100 && status <= 599 ? status : undefined;
}

function isAbsent(value: unknown): value is undefined | null {
  return value === undefined || value === null;
}

function isTextOrAbsent(value: unknown): value is string | undefined | null {
  return isAbsent(value) || typeof value === "string";
}

/** The words in an error body that say what is wrong, wherever the templates of PingAuthorize put them (PA-168). */
export function messageInBody(body: string): string | undefined {
  const value = parseJson(body);
  if (!isJsonRecord(value)) return undefined;
  const inner = isJsonRecord(value.error) ? value.error.message : undefined;
  const candidates = [value.message, value.errorMessage, value.error_description, inner];
  return candidates.find((text): text is string => typeof text === "string" && text !== "");
}
