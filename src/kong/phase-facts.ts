import type { HttpRequestFacts, HttpResponseFacts, StoredContext } from "../policy/sideband/contract.ts";
import { withoutUndefined } from "../lib/without-undefined.ts";
import type { KongHeaders, PdkCall } from "./pdk.ts";

/** Keys of `kong.ctx.shared`, for the response phase and the guard in Kong (PA-131, PA-162, PX-03). */
export const contextKeys = {
  request: "paz_original_request",
  state: "paz_state",
  mcp: "paz_mcp",
  trace: "paz_trace",
  /** `done` when the request may continue, `refused` when the plugin itself answered it. */
  access: "paz_access",
  /** `done` when the response was evaluated, or need not be. */
  response: "paz_response",
} as const;

/** The most headers that Kong returns; without a limit it drops those after the hundredth. */
export const headerLimit = 1000;

/**
 * With a size Kong also reads bodies that nginx buffered on disk; without one the client gets a 500 for them (PX-05).
 * Zero means "any size" only from Kong 3.8 on; a large number works in every version that has the argument.
 */
const anySize = 2 ** 31 - 1;

/** A request without its body. */
export type RequestHead = Omit<HttpRequestFacts, "body" | "headers" | "httpVersion"> & {
  readonly headers: KongHeaders;
  readonly httpVersion: number;
};

/** Reads the client's request but for its body, with concurrent PDK calls (PA-216). */
export async function readRequestHead(kong: PdkCall): Promise<RequestHead> {
  const read = await collect({
    clientAddress: kong("kong.client.get_ip"),
    clientPort: kong("kong.client.get_port"),
    method: kong("kong.request.get_method"),
    scheme: kong("kong.request.get_forwarded_scheme"),
    host: kong("kong.request.get_forwarded_host"),
    port: kong("kong.request.get_forwarded_port"),
    path: kong("kong.request.get_forwarded_path"),
    query: kong("kong.request.get_raw_query"),
    httpVersion: kong("kong.request.get_http_version"),
    headers: kong("kong.request.get_headers", headerLimit),
    clientCertificate: kong("kong.client.tls.get_full_client_certificate_chain"),
  });
  return { ...read, headerLimit };
}

/** Reads the request's body; undefined if it is over the limit. */
export function readRequestBody(kong: PdkCall, headers: KongHeaders, limit: number): Promise<Buffer | undefined> {
  return bodyWithin(headers, limit, () => kong("kong.request.get_raw_body", anySize));
}

/** The upstream's response without its body, and what the access phase stored, if anything. */
export interface ResponseHead {
  readonly response: Omit<HttpResponseFacts, "body" | "headers"> & { readonly headers: KongHeaders };
  readonly stored: StoredContext | undefined;
}

/** What the access phase may have stored besides the request. */
export interface StoredParts {
  readonly withMcp: boolean;
  readonly withTrace: boolean;
}

/** Reads the upstream's response but for its body, and the stored context. */
export async function readResponseHead(kong: PdkCall, { withMcp, withTrace }: StoredParts): Promise<ResponseHead> {
  const { request, state, mcp, trace, ...response } = await collect({
    request: kong("kong.ctx.shared.get", contextKeys.request),
    state: kong("kong.ctx.shared.get", contextKeys.state),
    status: kong("kong.response.get_status"),
    headers: kong("kong.response.get_headers", headerLimit),
    mcp: withMcp ? kong("kong.ctx.shared.get", contextKeys.mcp) : Promise.resolve(undefined),
    trace: withTrace ? kong("kong.ctx.shared.get", contextKeys.trace) : Promise.resolve(undefined),
  });
  return {
    response: { ...response, headerLimit },
    stored:
      request === undefined
        ? undefined
        : { paz_original_request: request, ...withoutUndefined({ paz_state: state, paz_mcp: mcp, paz_trace: trace }) },
  };
}

/** Reads the response's body; undefined if it is over the limit. */
export function readResponseBody(kong: PdkCall, headers: KongHeaders, limit: number): Promise<Buffer | undefined> {
  return bodyWithin(headers, limit, () => kong("kong.service.response.get_raw_body"));
}

/** A body whose announced length is too long is not fetched, because that alone would hold up other requests. */
async function bodyWithin(
  headers: KongHeaders,
  limit: number,
  read: () => Promise<Buffer>,
): Promise<Buffer | undefined> {
  if (limit > 0 && Number(headerValue(headers, "content-length") ?? 0) > limit) return undefined;
  const body = await read();
  return limit > 0 && body.length > limit ? undefined : body;
}

/** The first value of a header. */
function headerValue(headers: KongHeaders, name: string): unknown {
  const value = headers[name];
  return Array.isArray(value) ? (value as readonly unknown[])[0] : value;
}

/** Clears every header of the upstream: what was not evaluated must not reach the client. */
export async function clearResponseHeaders(kong: PdkCall, known: KongHeaders): Promise<void> {
  let headers = known;
  // Kong shows at most a thousand values at a time; some of its own cannot be cleared, so the rounds are bounded.
  for (let round = 0; round < 10; round++) {
    const names = Object.keys(headers);
    await Promise.all(names.map((name) => kong("kong.response.clear_header", name)));
    if (valueCount(headers) < headerLimit) return;
    headers = await kong("kong.response.get_headers", headerLimit);
  }
}

function valueCount(headers: KongHeaders): number {
  return Object.values(headers).reduce<number>((sum, value) => sum + (Array.isArray(value) ? value.length : 1), 0);
}

/** Awaits all values of an object at once. */
async function collect<Values extends object>(calls: {
  readonly [Name in keyof Values]: Promise<Values[Name]>;
}): Promise<Values> {
  const entries = Object.entries<Promise<unknown>>(calls);
  const values = await Promise.all(entries.map(([, call]) => call));
  // The same names as in `calls`, each with the value of its promise.
  return Object.fromEntries(entries.map(([name], index) => [name, values[index]])) as Values;
}
