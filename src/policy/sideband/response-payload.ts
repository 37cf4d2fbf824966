import { promisify } from "node:util";
import { brotliDecompress, gunzip, inflate, zstdDecompress } from "node:zlib";

import { type FinalResponse, finalResponseOf } from "../../protocol/sse/final-response.ts";
import type { HttpResponseFacts, StoredContext } from "./contract.ts";
import { countValues, type HeaderMap, toHeaderMap, toSidebandHeaders } from "./http-format.ts";
import {
  isJsonRecord,
  type McpSummary,
  objectText,
  parseJson,
  type Payload,
  shortenBody,
  storedMcpSummary,
  type TextMember,
} from "./payload.ts";
import type { SidebandSettings } from "./settings.ts";

/** What is sent about a response, and what the result is compared with. */
export interface ResponsePayload extends Payload {
  readonly headers: HeaderMap;
  readonly mcp: McpSummary | undefined;
  /** What the decision point sees of the body. */
  readonly seen: FinalResponse;
  /** The body that `seen` is a part of: the upstream's, without its content coding. */
  readonly plainBody: Buffer;
}

/** A payload, or the status that refuses the response. */
export type ComposedResponse =
  | { readonly ok: true; readonly payload: ResponsePayload }
  | { readonly ok: false; readonly status: 400 | 500 | 502; readonly problem: string };

/** Puts a response into the form of the Sideband API (PA-086 to PA-091, PA-177 to PA-182). */
export async function composeResponse(
  facts: HttpResponseFacts,
  stored: StoredContext,
  settings: SidebandSettings,
): Promise<ComposedResponse> {
  const headers = toHeaderMap(facts.headers);
  if (headers === undefined) return responseProblem(400, "a header value is neither a text nor a list of texts");
  if (countValues(headers) >= (facts.headerLimit ?? Number.POSITIVE_INFINITY)) {
    return responseProblem(502, "there are more headers than can be read");
  }
  const original = parseJson(stored.paz_original_request);
  if (!isOriginal(original)) return responseProblem(500, "the stored request is not what was stored");
  const mcp = settings.enable_mcp ? storedMcpSummary(stored.paz_mcp) : undefined;
  const decoded = await decodeContent(facts.body, headers.get("content-encoding"));
  const plainBody = decoded ?? facts.body;
  const sentHeaders = decoded === undefined ? headers : without(headers, "content-encoding");
  const seen = finalResponseOf({
    enableMcp: settings.enable_mcp,
    contentType: headers.get("content-type")?.[0],
    body: plainBody,
  });
  const before: readonly TextMember[] = [
    ["method", JSON.stringify(original.method)],
    ["url", JSON.stringify(original.url)],
  ];
  const after: readonly (TextMember | undefined)[] = [
    ["response_code", JSON.stringify(String(facts.status))],
    ["response_status", JSON.stringify(responseStatusText(facts.status))],
    ["headers", JSON.stringify(toSidebandHeaders(sentHeaders))],
    ["http_version", JSON.stringify(original.http_version)],
    mcp === undefined ? undefined : ["traffic_type", '"mcp"'],
    mcp === undefined ? undefined : ["mcp", mcp.stored],
  ];
  const body = seen.text;
  const withContext = (context: TextMember): Payload => ({
    body,
    render: (text) => objectText([...before, ["body", JSON.stringify(text)], ...after, context]),
  });
  const { paz_state: state, paz_original_request: request } = stored;
  return {
    ok: true,
    payload: {
      // One of the two, never both (PA-091).
      ...withContext(state === undefined ? ["request", request] : ["state", state]),
      ...(state === undefined
        ? { shortenRequest: (excess: number) => withContext(["request", shortenBody(request, excess)]) }
        : {}),
      headers,
      mcp,
      seen,
      plainBody,
    },
  };
}

interface OriginalRequest {
  readonly method: string;
  readonly url: string;
  readonly http_version: string;
}

function isOriginal(value: unknown): value is OriginalRequest {
  return isJsonRecord(value) && [value.method, value.url, value.http_version].every((part) => typeof part === "string");
}

function responseProblem(status: 400 | 500 | 502, problem: string): ComposedResponse {
  return { ok: false, status, problem };
}

function without(headers: HeaderMap, name: string): HeaderMap {
  return new Map([...headers].filter(([other]) => other !== name));
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

/** The `response_status` of a status; empty for any that the Sideband API has no word for (PA-089). */
export function responseStatusText(status: number): string {
  return statusTexts[status] ?? "";
}

/** Most bytes that a compressed body may grow to; a larger one is shown to the policy as it came. */
const maxDecodedBytes = 64 * 1024 * 1024;

type Decode = (body: Buffer, options: { readonly maxOutputLength: number }) => Promise<Buffer>;

const decoders: Readonly<Record<string, Decode>> = {
  gzip: promisify(gunzip),
  "x-gzip": promisify(gunzip),
  deflate: promisify(inflate),
  br: promisify(brotliDecompress),
  zstd: promisify(zstdDecompress),
};

/**
 * A body without its content coding, for policies that could not read it otherwise (PA-206). Undefined when it has none,
 * one that is not known, several, or when it is broken or grows too large.
 */
async function decodeContent(body: Buffer, encodings: readonly string[] | undefined): Promise<Buffer | undefined> {
  const coding = encodings?.join(",").trim().toLowerCase() ?? "";
  const decode = Object.hasOwn(decoders, coding) ? decoders[coding] : undefined;
  if (decode === undefined || body.length === 0) return undefined;
  try {
    return await decode(body, { maxOutputLength: maxDecodedBytes });
  } catch {
    // A broken body is the upstream's affair: the policy sees it as the client would.
    return undefined;
  }
}
