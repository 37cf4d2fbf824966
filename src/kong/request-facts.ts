import type { HttpRequestFacts, HttpResponseFacts, StoredContext } from "../policy/sideband/contract.ts";
import type { PdkCall } from "./pdk.ts";

/** As many headers as Kong can be asked for; without a number it leaves out those after the hundredth. */
const headerLimit = 1000;

/**
 * With a size Kong also reads bodies that nginx has put on disk; without one the client gets 500 for them (PX-05).
 * Zero would mean "any size" from Kong 3.8 on, a large number does so in every version that knows the argument.
 */
const anySize = 2 ** 31 - 1;

/** Reads the client's request. The questions do not depend on each other, so they are asked in one go (PA-216). */
export async function readRequest(kong: PdkCall): Promise<HttpRequestFacts> {
  const [
    clientAddress,
    clientPort,
    method,
    scheme,
    host,
    port,
    path,
    query,
    httpVersion,
    headers,
    clientCertificate,
    body,
  ] = await Promise.all([
    kong("kong.client.get_ip"),
    kong("kong.client.get_port"),
    kong("kong.request.get_method"),
    kong("kong.request.get_forwarded_scheme"),
    kong("kong.request.get_forwarded_host"),
    kong("kong.request.get_forwarded_port"),
    kong("kong.request.get_forwarded_path"),
    kong("kong.request.get_raw_query"),
    kong("kong.request.get_http_version"),
    kong("kong.request.get_headers", headerLimit),
    kong("kong.client.tls.get_full_client_certificate_chain"),
    kong("kong.request.get_raw_body", anySize),
  ]);
  return {
    clientAddress,
    clientPort,
    method,
    scheme,
    host,
    port,
    path,
    query,
    httpVersion,
    headers,
    headerLimit,
    clientCertificate,
    body,
  };
}

/** Reads the upstream's response, and what the access phase left with the request; undefined where it left nothing. */
export async function readResponse(
  kong: PdkCall,
  { withMcp }: { readonly withMcp: boolean },
): Promise<{ readonly response: HttpResponseFacts; readonly stored: StoredContext | undefined }> {
  const [request, state, status, headers, body, mcp] = await Promise.all([
    kong("kong.ctx.shared.get", contextKeys.request),
    kong("kong.ctx.shared.get", contextKeys.state),
    kong("kong.response.get_status"),
    kong("kong.response.get_headers", headerLimit),
    kong("kong.service.response.get_raw_body"),
    withMcp ? kong("kong.ctx.shared.get", contextKeys.mcp) : undefined,
  ]);
  return {
    response: { status, headers, headerLimit, body },
    stored:
      request === undefined
        ? undefined
        : {
            paz_original_request: request,
            ...(state === undefined ? {} : { paz_state: state }),
            ...(mcp === undefined ? {} : { paz_mcp: mcp }),
          },
  };
}

/** What is kept with the request, for the response phase and for the guard in Kong (PA-131, PA-162, PX-03). */
export const contextKeys = {
  request: "paz_original_request",
  state: "paz_state",
  mcp: "paz_mcp",
  accessDone: "paz_access",
  responseDone: "paz_response",
} as const;

/** The value of the two marks. */
export const doneMark = "done";
