import { promisify } from "node:util";
import { brotliDecompress, gunzip, inflate, zstdDecompress } from "node:zlib";

import { isObject } from "../../lib/is-object.ts";
import { type FinalResponse, finalResponseOf } from "../../protocol/sse/final-response.ts";
import type { HttpResponseFacts, StoredContext } from "./contract.ts";
import { type HeaderMap, readHeaders, toSidebandHeaders } from "./http-format.ts";
import {
  type McpSummary,
  objectText,
  parseJson,
  type Payload,
  storedMcpSummary,
  type TextMembers,
  truncateBody,
} from "./payload.ts";
import type { SidebandSettings } from "./settings.ts";

/** The payload of a response, and what an answer is compared with. */
export interface ResponsePayload extends Payload {
  readonly headers: HeaderMap;
  readonly mcp: McpSummary | undefined;
  /** The part of the body that PingAuthorize gets. */
  readonly seen: FinalResponse;
  /** The upstream's body without its content coding. */
  readonly plainBody: Buffer;
}

/** A payload, or the status that refuses the response. */
export type ComposedResponse =
  | { readonly ok: true; readonly payload: ResponsePayload }
  | { readonly ok: false; readonly status: 400 | 500 | 502; readonly problem: string };

/** Composes the payload of a response (PA-086 to PA-091, PA-177 to PA-182). */
export async function composeResponse(
  facts: HttpResponseFacts,
  stored: StoredContext,
  settings: SidebandSettings,
): Promise<ComposedResponse> {
  const headers = readHeaders(facts);
  if ("problem" in headers) return { ok: false, status: headers.isIncomplete ? 502 : 400, problem: headers.problem };
  const { paz_state: state, paz_original_request: request, paz_mcp: storedMcp } = stored;
  const original = parseJson(request);
  if (!isOriginal(original)) return { ok: false, status: 500, problem: "the stored request is malformed" };
  const mcp = settings.enable_mcp ? storedMcpSummary(storedMcp) : undefined;
  const decoded = await decodeContent(facts.body, headers.get("content-encoding"));
  const plainBody = decoded ?? facts.body;
  const sentHeaders = new Map(headers);
  if (decoded !== undefined) sentHeaders.delete("content-encoding");
  const seen = finalResponseOf({
    enableMcp: settings.enable_mcp,
    contentType: headers.get("content-type")?.[0],
    body: plainBody,
  });
  const before: TextMembers = { method: JSON.stringify(original.method), url: JSON.stringify(original.url) };
  const after: TextMembers = {
    response_code: JSON.stringify(String(facts.status)),
    response_status: JSON.stringify(responseStatusText(facts.status)),
    headers: JSON.stringify(toSidebandHeaders(sentHeaders)),
    http_version: JSON.stringify(original.http_version),
    traffic_type: mcp && '"mcp"',
    mcp: mcp?.stored,
  };
  // Either the state or the request, never both (PA-091).
  const withContext = (context: TextMembers): Payload => ({
    body: seen.text,
    render: (text) => objectText({ ...before, body: JSON.stringify(text), ...after, ...context }),
  });
  const payload: Payload =
    state === undefined
      ? {
          ...withContext({ request }),
          truncateRequest: (excess) => withContext({ request: truncateBody(request, excess) }),
        }
      : withContext({ state });
  return { ok: true, payload: { ...payload, headers, mcp, seen, plainBody } };
}

interface OriginalRequest {
  readonly method: string;
  readonly url: string;
  readonly http_version: string;
}

function isOriginal(value: unknown): value is OriginalRequest {
  return isObject(value) && ["method", "url", "http_version"].every((name) => typeof value[name] === "string");
}

const statusTexts: Readonly<Record<number, string>> = {
  200: "OK",
  400: "BAD REQUEST",
  401: "UNAUTHORIZED",
  404: "NOT FOUND",
  413: "PAYLOAD TOO LARGE",
  429: "TOO MANY REQUESTS",
  500: "INTERNAL SERVER ERROR",
  503: "SERVICE UNAVAILABLE",
};

/** The `response_status` of a status; empty for statuses that the Sideband API does not name (PA-089). */
export function responseStatusText(status: number): string {
  return statusTexts[status] ?? "";
}

const maxDecodedBytes = 64 * 1024 * 1024;

type Decode = (body: Buffer, options: { readonly maxOutputLength: number }) => Promise<Buffer>;

const decoders: ReadonlyMap<string, Decode> = new Map([
  ["gzip", promisify<Buffer, { maxOutputLength: number }, Buffer>(gunzip)],
  ["x-gzip", promisify<Buffer, { maxOutputLength: number }, Buffer>(gunzip)],
  ["deflate", promisify<Buffer, { maxOutputLength: number }, Buffer>(inflate)],
  ["br", promisify<Buffer, { maxOutputLength: number }, Buffer>(brotliDecompress)],
  ["zstd", promisify<Buffer, { maxOutputLength: number }, Buffer>(zstdDecompress)],
]);

/**
 * A body without its content coding (PA-206). Undefined if it has none, an unknown one or several, or if it is broken or
 * too large: the policy then sees it as the client would.
 */
async function decodeContent(body: Buffer, encodings: readonly string[] | undefined): Promise<Buffer | undefined> {
  const decode = decoders.get(encodings?.join(",").trim().toLowerCase() ?? "");
  if (decode === undefined || body.length === 0) return undefined;
  try {
    return await decode(body, { maxOutputLength: maxDecodedBytes });
  } catch {
    return undefined;
  }
}
