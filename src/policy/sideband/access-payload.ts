import { X509Certificate } from "node:crypto";

import { type McpContext, mcpContextOf } from "../../protocol/http/mcp-context.ts";
import type { HttpRequestFacts } from "./contract.ts";
import { composeUrl, type HeaderMap, readHeaders, toSidebandHeaders } from "./http-format.ts";
import { mcpMember, mcpSummary, type McpSummary, objectText, type Payload, type TextMembers } from "./payload.ts";
import type { SidebandSettings } from "./settings.ts";

/** The payload of a request, and what an answer is compared with. */
export interface AccessPayload extends Payload {
  readonly sourceIp: string;
  readonly sourcePort: string;
  readonly method: string;
  readonly url: string;
  readonly headers: HeaderMap;
  readonly httpVersion: string;
  readonly certificate: ClientCertificate | undefined;
  readonly mcp: McpSummary | undefined;
  /** Query arguments beyond the limit, which are omitted. */
  readonly omittedArguments: number;
}

/** A payload, or why the request has none. */
export type ComposedAccess =
  | { readonly ok: true; readonly payload: AccessPayload }
  | {
      readonly ok: false;
      readonly problem: string;
      /** Set if the body is ambiguous MCP: its refusal may be JSON-RPC (PX-10). */
      readonly mcp?: { readonly id: string | undefined };
    };

/** Composes the payload of a request (PA-042 to PA-052, PA-158 to PA-161). */
export function composeAccess(facts: HttpRequestFacts, settings: SidebandSettings): ComposedAccess {
  const { clientCertificate: pem, method, body, accessToken } = facts;
  const headers = readHeaders(facts);
  if ("problem" in headers) return { ok: false, problem: headers.problem };
  const composed = composeUrl(facts);
  if (composed === undefined) return { ok: false, problem: "the path is not UTF-8" };
  const certificate = pem === undefined ? undefined : toClientCertificate(pem, settings.include_full_cert_chain);
  if (pem !== undefined && certificate === undefined)
    return { ok: false, problem: "the client certificate cannot be read, or its key type is not supported" };
  const reading = mcpContextOf(body, {
    enableMcp: settings.enable_mcp,
    nonMcpJson: settings.non_mcp_json,
    contentType: headers.get("content-type"),
    contentEncoding: headers.get("content-encoding"),
  });
  if (reading.kind === "ambiguous") {
    const { message, id } = reading.response;
    return { ok: false, problem: message, mcp: { id: id?.json } };
  }
  const context = reading.kind === "mcp" ? reading.context : undefined;
  const httpVersion = formatHttpVersion(facts.httpVersion);
  const sourceIp = facts.clientAddress;
  const sourcePort = String(facts.clientPort);
  const { url, omittedArguments } = composed;
  const before: TextMembers = {
    source_ip: JSON.stringify(sourceIp),
    source_port: JSON.stringify(sourcePort),
    method: JSON.stringify(method),
    url: JSON.stringify(url),
  };
  const after: TextMembers = {
    headers: JSON.stringify(toSidebandHeaders(headers)),
    http_version: JSON.stringify(httpVersion),
    client_certificate: certificate && JSON.stringify(certificate),
    access_token: accessToken && JSON.stringify(accessToken),
    ...mcpMembers(context, headers, settings),
  };
  return {
    ok: true,
    payload: {
      sourceIp,
      sourcePort,
      method,
      url,
      headers,
      httpVersion,
      certificate,
      mcp: context && mcpSummary(context),
      omittedArguments,
      body: body.toString("utf8"),
      render: (text) => objectText({ ...before, body: JSON.stringify(text), ...after }),
    },
  };
}

function mcpMembers(
  context: McpContext | undefined,
  headers: HeaderMap,
  { enable_mcp: isEnabled, extract_headers: names }: SidebandSettings,
): TextMembers {
  // The first value of each named header (PA-161).
  const extracted = (isEnabled ? [...new Set(names.map((name) => name.toLowerCase()))] : []).flatMap((name) => {
    const first = headers.get(name)?.[0];
    return first === undefined ? [] : [[name, JSON.stringify(first)] as const];
  });
  return {
    traffic_type: context && '"mcp"',
    mcp: context && mcpMember(context),
    extracted_headers: extracted.length === 0 ? undefined : objectText(Object.fromEntries(extracted)),
  };
}

/** `1.0`, `1.1`, `2` or `3` (PA-050). */
export function formatHttpVersion(version: number | string): string {
  const text = String(version).replace(/^HTTP\//iu, "");
  if (text === "1") return "1.0";
  return text.replace(/^([23])\.0$/u, "$1");
}

/** A public key as JWK with its certificates. */
export type ClientCertificate = Readonly<Record<string, string | readonly string[]>>;

const pemBlock = /-----BEGIN CERTIFICATE-----[\s\S]*?-----END CERTIFICATE-----/gu;

/** The JWK members to send, by key type; other types are refused (PA-102). */
const keyMembers: Readonly<Record<string, readonly string[]>> = {
  RSA: ["n", "e"],
  "EC P-256": ["crv", "x", "y"],
  "EC P-384": ["crv", "x", "y"],
  "EC P-521": ["crv", "x", "y"],
  "OKP Ed25519": ["crv", "x"],
};

/**
 * The JWK of the first certificate in a PEM chain, with `x5c` (PA-098 to PA-104). Undefined if a certificate cannot be
 * read (PA-097) or its key type is not supported (PA-102).
 */
export function toClientCertificate(pem: string, withChain: boolean): ClientCertificate | undefined {
  try {
    const certificates = (pem.match(pemBlock) ?? []).map((block) => new X509Certificate(block));
    const [leaf] = certificates;
    if (leaf === undefined) return undefined;
    const key = leaf.publicKey.export({ format: "jwk" });
    const { kty = "", crv } = key;
    const members = keyMembers[crv === undefined ? kty : `${kty} ${crv}`];
    if (members === undefined) return undefined;
    const x5c = (withChain ? certificates : [leaf]).map(({ raw }) => raw.toString("base64"));
    return { kty, ...Object.fromEntries(members.map((name) => [name, String(key[name])])), x5c };
  } catch {
    return undefined;
  }
}
