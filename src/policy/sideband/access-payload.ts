import { X509Certificate } from "node:crypto";

import { type McpContext, mcpContextOf } from "../../protocol/http/mcp-context.ts";
import type { HttpRequestFacts } from "./contract.ts";
import { composeUrl, countValues, type HeaderMap, toHeaderMap, toSidebandHeaders } from "./http-format.ts";
import { mcpMember, mcpSummary, type McpSummary, objectText, type Payload, type TextMember } from "./payload.ts";
import type { SidebandSettings } from "./settings.ts";

/** What is sent about a request, and what an answer is compared with. */
export interface AccessPayload extends Payload {
  readonly sourceIp: string;
  readonly sourcePort: string;
  readonly method: string;
  readonly url: string;
  readonly headers: HeaderMap;
  readonly httpVersion: string;
  readonly certificate: ClientCertificate | undefined;
  readonly mcp: McpSummary | undefined;
  /** Query arguments that the decision point does not get to see. */
  readonly omittedArguments: number;
}

/** A payload, or why the request cannot be put into one. */
export type ComposedAccess =
  | { readonly ok: true; readonly payload: AccessPayload }
  | {
      readonly ok: false;
      /** For the log. */
      readonly problem: string;
      /** Present when the body is MCP that could be read in two ways: its refusal may be JSON-RPC (PX-10). */
      readonly mcp?: { readonly id: string | undefined };
    };

/** Puts a request into the form of the Sideband API (PA-042 to PA-052, PA-158 to PA-161). */
export function composeAccess(facts: HttpRequestFacts, settings: SidebandSettings): ComposedAccess {
  const headers = toHeaderMap(facts.headers);
  if (headers === undefined) return accessProblem("a header value is neither a text nor a list of texts");
  if (countValues(headers) >= (facts.headerLimit ?? Number.POSITIVE_INFINITY)) {
    return accessProblem("there are more headers than can be read");
  }
  const composed = composeUrl(facts);
  if (composed === undefined) return accessProblem("the path is not UTF-8");
  const { clientCertificate: pem } = facts;
  const certificate = pem === undefined ? undefined : toClientCertificate(pem, settings.include_full_cert_chain);
  if (pem !== undefined && certificate === undefined) {
    return accessProblem("the client certificate cannot be read, or its key is of another type");
  }
  const reading = mcpContextOf(facts.body, { enableMcp: settings.enable_mcp });
  if (reading.kind === "ambiguous") {
    const { message, id } = reading.response;
    return { ok: false, problem: message, mcp: { id: id?.json } };
  }
  const context = reading.kind === "mcp" ? reading.context : undefined;
  const method = facts.method;
  const httpVersion = formatHttpVersion(facts.httpVersion);
  const sourceIp = facts.clientAddress;
  const sourcePort = String(facts.clientPort);
  const { url, omittedArguments } = composed;
  const before: readonly TextMember[] = [
    ["source_ip", JSON.stringify(sourceIp)],
    ["source_port", JSON.stringify(sourcePort)],
    ["method", JSON.stringify(method)],
    ["url", JSON.stringify(url)],
  ];
  const after: readonly (TextMember | undefined)[] = [
    ["headers", JSON.stringify(toSidebandHeaders(headers))],
    ["http_version", JSON.stringify(httpVersion)],
    certificate === undefined ? undefined : ["client_certificate", JSON.stringify(certificate)],
    facts.accessToken === undefined ? undefined : ["access_token", JSON.stringify(facts.accessToken)],
    ...trafficMembers(context, headers, settings),
  ];
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
      mcp: context === undefined ? undefined : mcpSummary(context),
      omittedArguments,
      body: facts.body.toString("utf8"),
      render: (body) => objectText([...before, ["body", JSON.stringify(body)], ...after]),
    },
  };
}

function accessProblem(problem: string): ComposedAccess {
  return { ok: false, problem };
}

function trafficMembers(
  context: McpContext | undefined,
  headers: HeaderMap,
  settings: SidebandSettings,
): readonly (TextMember | undefined)[] {
  const extracted = settings.enable_mcp ? extractHeaders(headers, settings.extract_headers) : [];
  return [
    context === undefined ? undefined : ["traffic_type", '"mcp"'],
    context === undefined ? undefined : ["mcp", mcpMember(context)],
    extracted.length === 0 ? undefined : ["extracted_headers", objectText(extracted)],
  ];
}

/** The first value of each named header that is there (PA-161). */
function extractHeaders(headers: HeaderMap, names: readonly string[]): readonly TextMember[] {
  const members: TextMember[] = [];
  for (const name of new Set(names.map((given) => given.toLowerCase()))) {
    const first = headers.get(name)?.[0];
    if (first !== undefined) members.push([name, JSON.stringify(first)]);
  }
  return members;
}

/** `1.0`, `1.1`, `2` or `3`, however the version was given (PA-050). */
export function formatHttpVersion(version: number | string): string {
  const text = String(version).replace(/^HTTP\//iu, "");
  if (text === "1") return "1.0";
  return text.replace(/^([23])\.0$/u, "$1");
}

/** A public key as JWK with the certificates it came from. */
export type ClientCertificate = Readonly<Record<string, string | readonly string[]>>;

const pemBlock = /-----BEGIN CERTIFICATE-----[\s\S]*?-----END CERTIFICATE-----/gu;

/** Which members of an exported key go into the payload, by type of key; other curves and types are refused (PA-102). */
const keyMembers: Readonly<Record<string, readonly string[]>> = {
  RSA: ["n", "e"],
  "EC P-256": ["crv", "x", "y"],
  "EC P-384": ["crv", "x", "y"],
  "EC P-521": ["crv", "x", "y"],
  "OKP Ed25519": ["crv", "x"],
};

/**
 * The JWK of the first certificate in a PEM chain, with `x5c` (PA-098 to PA-104). Undefined when a certificate cannot
 * be read or its key is of another type.
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
    // Whatever is wrong with a certificate or its key, it comes out the same: the request is refused (PA-097, PA-102).
    return undefined;
  }
}
