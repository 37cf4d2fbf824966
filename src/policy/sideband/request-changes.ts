import { isDeepStrictEqual } from "node:util";

import type { AccessPayload } from "./access-payload.ts";
import type { RequestChange } from "./contract.ts";
import { fixedHeaders, type HeaderMap, parseHttpUrl, toHeadersOut } from "./http-format.ts";
import type { AllowedRequest } from "./pdp-call.ts";
import { memberSource, memberString } from "../../protocol/json/read.ts";
import { scan, skipSpace } from "../../protocol/json/scan.ts";
import { objectText } from "./payload.ts";

/** The methods that Kong can set on an upstream request. */
export const kongMethods: ReadonlySet<string> = new Set(
  "GET HEAD PUT POST DELETE OPTIONS MKCOL COPY MOVE PROPFIND PROPPATCH LOCK UNLOCK PATCH TRACE".split(" "),
);

/** A request as it was sent to PingAuthorize. */
export interface SentRequest {
  readonly payload: AccessPayload;
  readonly sentBody: string;
  readonly isTruncated: boolean;
  readonly originalBody: Buffer;
}

/** The changes in order, or why one of them cannot be carried out. */
export type ChangeList =
  | {
      readonly ok: true;
      readonly changes: readonly RequestChange[];
      readonly warnings: readonly string[];
      /** Members that the answer lacks; taken as unchanged. */
      readonly missing: readonly string[];
    }
  | { readonly ok: false; readonly problem: string };

/** How changes of a request are read. */
export interface ChangeOptions {
  readonly stripAcceptEncoding: boolean;
  readonly knownMethods: ReadonlySet<string>;
}

/**
 * The changes that the policy asks for: the differences between its answer and what it was sent, in the order headers,
 * `Accept-Encoding`, method, URL, body (PA-072 to PA-084, PA-205, PA-210, PA-211).
 */
export function requestChanges(sent: SentRequest, allowed: AllowedRequest, options: ChangeOptions): ChangeList {
  const { payload } = sent;
  const warnings = unsupportedChanges(payload, allowed);
  const missing = (["headers", "method", "url"] as const).filter((name) => allowed[name] === undefined);
  const url = urlChanges(payload.url, allowed.url);
  if (url === undefined) return { ok: false, problem: "the URL of the answer is not an http or https URL" };
  if (url.schemeChanged) warnings.push("the policy changed the scheme, which is not supported");
  const { method } = allowed;
  const isOtherMethod = method !== undefined && method !== payload.method;
  if (isOtherMethod && !options.knownMethods.has(method)) {
    return { ok: false, problem: "the method of the answer is not known" };
  }
  const body = bodyChange(sent, allowed.body);
  if (!body.ok) return body;
  if (body.warning !== undefined) warnings.push(body.warning);
  return {
    ok: true,
    warnings,
    missing,
    changes: [
      ...headerChanges(payload.headers, allowed.headers, options.stripAcceptEncoding, url.setsHost),
      ...(isOtherMethod ? [{ type: "set-method", method } as const] : []),
      ...url.changes,
      ...body.changes,
    ],
  };
}

/** The changes without an answer: `Accept-Encoding` is still removed (PA-076). */
export function changesWithoutAnswer(headers: HeaderMap, stripAcceptEncoding: boolean): readonly RequestChange[] {
  return headerChanges(headers, undefined, stripAcceptEncoding, false);
}

const acceptEncoding = "accept-encoding";

function headerChanges(
  original: HeaderMap,
  wanted: HeaderMap | undefined,
  stripAcceptEncoding: boolean,
  isHostSetLater: boolean,
): readonly RequestChange[] {
  const set = new Map<string, readonly string[]>();
  const clear: string[] = [];
  const isOurs = (name: string): boolean => fixedHeaders.has(name) || (stripAcceptEncoding && name === acceptEncoding);
  if (wanted !== undefined) {
    for (const [name, values] of wanted) {
      if (isOurs(name) || (isHostSetLater && name === "host")) continue;
      if (!isDeepStrictEqual(values, original.get(name))) set.set(name, values);
    }
    for (const name of original.keys()) if (!wanted.has(name) && !isOurs(name) && name !== "host") clear.push(name);
  }
  if (stripAcceptEncoding && original.has(acceptEncoding)) clear.push(acceptEncoding);
  return [
    ...(set.size === 0 ? [] : [{ type: "set-headers", headers: toHeadersOut(set) } as const]),
    ...clear.map((name) => ({ type: "clear-header", name }) as const),
  ];
}

interface UrlChanges {
  readonly changes: readonly RequestChange[];
  readonly setsHost: boolean;
  readonly schemeChanged: boolean;
}

function urlChanges(sent: string, wanted: string | undefined): UrlChanges | undefined {
  if (wanted === undefined || wanted === sent) return { changes: [], setsHost: false, schemeChanged: false };
  const [before, after] = [parseHttpUrl(sent), parseHttpUrl(wanted)];
  if (after === undefined) return undefined;
  // The sent URL may not parse, as with an invalid host; then every part is new.
  const setsHost = before?.host !== after.host || before.port !== after.port;
  return {
    setsHost,
    schemeChanged: before !== undefined && before.scheme !== after.scheme,
    changes: [
      ...(setsHost ? [{ type: "set-headers", headers: { host: [`${after.host}:${after.port}`] } } as const] : []),
      ...(before?.path === after.path ? [] : [{ type: "set-path", path: after.path } as const]),
      ...(before?.query === after.query ? [] : [{ type: "set-query", query: after.query } as const]),
    ],
  };
}

type BodyChange =
  | { readonly ok: true; readonly changes: readonly RequestChange[]; readonly warning?: string }
  | { readonly ok: false; readonly problem: string };

function bodyChange(sent: SentRequest, wanted: string | undefined): BodyChange {
  const text = wanted ?? "";
  if (text === sent.sentBody) return { ok: true, changes: [] };
  if (sent.isTruncated) return { ok: false, problem: "the policy changed a body that it saw only in part" };
  const plain = [{ type: "set-body", body: Buffer.from(text) } as const];
  if (sent.payload.mcp === undefined) return { ok: true, changes: plain };
  const body = rebuildMcpBody(sent.originalBody, text);
  return body === undefined
    ? { ok: true, changes: plain, warning: "the changed body is not a JSON-RPC 2.0 request; used as it is" }
    : { ok: true, changes: [{ type: "set-body", body }] };
}

function unsupportedChanges(payload: AccessPayload, allowed: AllowedRequest): string[] {
  const warnings: string[] = [];
  const differs = (name: string, before: unknown, after: unknown): void => {
    if (after !== undefined && after !== null && !isDeepStrictEqual(before, after)) {
      warnings.push(`the policy changed ${name}, which is not supported`);
    }
  };
  differs("source_ip", payload.sourceIp, allowed.sourceIp);
  // PingAuthorize may write it as a number (PA-084).
  const port = typeof allowed.sourcePort === "number" ? String(allowed.sourcePort) : allowed.sourcePort;
  differs("source_port", payload.sourcePort, port);
  differs("client_certificate", payload.certificate, allowed.certificate);
  return warnings;
}

/**
 * The upstream body of an MCP request that the policy changed: `jsonrpc`, `id` and `method` of the original, and the
 * policy's `params` (PA-165). Undefined if the policy's body is not a JSON-RPC 2.0 request (PA-166).
 */
function rebuildMcpBody(original: Buffer, changed: string): Buffer | undefined {
  const source = outlined(original);
  const policy = outlined(Buffer.from(changed));
  if (source === undefined || policy === undefined || policy.outline.duplicateAt >= 0) return undefined;
  if (memberString(policy, "jsonrpc") !== "2.0" || memberString(policy, "method") === undefined) return undefined;
  const text = objectText({
    jsonrpc: '"2.0"',
    id: memberSource(source, "id"),
    method: memberSource(source, "method"),
    params: memberSource(policy, "params"),
  });
  return Buffer.from(text);
}

function outlined(bytes: Buffer) {
  const outline = scan(bytes, 0, Number.MAX_SAFE_INTEGER);
  if (!outline.ok || bytes[outline.start] !== 0x7b) return undefined;
  return skipSpace(bytes, outline.end, bytes.length) < bytes.length ? undefined : { bytes, outline };
}
