import { isUtf8 } from "node:buffer";

import { isObject } from "../../lib/is-object.ts";
import { membersOf, typeAt } from "../../protocol/json/read.ts";
import { scan } from "../../protocol/json/scan.ts";
import type { OpenBreaker, PdpCaller } from "../pdp/call.ts";
import type { PdpReply, ServiceUrl } from "../pdp/client.ts";
import type { EngineCall, EnginePhase, SidebandEngineDeps } from "./contract.ts";
import { fromSidebandHeaders, type HeaderMap } from "./http-format.ts";
import { memberText, parseJson } from "./payload.ts";
import type { SidebandSettings } from "./settings.ts";
import type { Instruments, QueryTrace } from "./telemetry.ts";

/** How a query ended. */
export type QueryOutcome<Answer> =
  /** A 2xx reply, parsed. */
  | { readonly kind: "answer"; readonly answer: Answer }
  /** Any other status; `tripped` if it opened the breaker. */
  | { readonly kind: "reply"; readonly reply: PdpReply; readonly tripped: OpenBreaker | undefined }
  /** No reply. */
  | { readonly kind: "failed"; readonly error: string }
  /** Not sent: the breaker is open. */
  | { readonly kind: "open"; readonly open: OpenBreaker };

/** One query to PingAuthorize. */
export interface SidebandQuery<Answer> {
  readonly phase: EnginePhase;
  readonly body: Buffer;
  /** The MCP method of the message; undefined for other traffic (PA-212). */
  readonly mcpMethod: string | undefined;
  readonly call: EngineCall;
  readonly trace: QueryTrace;
  /** Parses the body of a 2xx reply, and classifies it for metrics and spans. */
  readonly parse: (body: Buffer) => { readonly answer: Answer; readonly decision: "allow" | "deny" | "error" };
}

/** Sends a query; rejects only if the query's signal was aborted. */
export type QuerySideband = <Answer>(query: SidebandQuery<Answer>) => Promise<QueryOutcome<Answer>>;

/** What a query of the decision point needs. */
export interface QuerySidebandDeps {
  readonly settings: SidebandSettings;
  readonly service: ServiceUrl;
  readonly pdp: PdpCaller;
  readonly instruments: Instruments;
  readonly deps: Pick<SidebandEngineDeps, "clock" | "secret">;
  readonly userAgent: string;
}

/** Creates the function that queries PingAuthorize and reports metrics and a span per query. */
export function createSidebandQuery(options: QuerySidebandDeps): QuerySideband {
  const { settings, service, pdp, instruments, deps } = options;
  const { clock } = deps;

  async function headersFor(body: Buffer, trace: QueryTrace): Promise<Readonly<Record<string, string>>> {
    return {
      Host: `${service.host}:${service.port}`,
      Connection: "Keep-Alive",
      "Content-Type": "application/json",
      "User-Agent": options.userAgent,
      "Content-Length": String(body.length),
      [settings.secret_header_name]: (await deps.secret?.()) ?? settings.shared_secret,
      ...trace.headers,
    };
  }

  /** MCP methods that are not listed get one attempt, in both phases (PA-184). */
  function retriesFor(mcpMethod: string | undefined): number {
    const mayRetry = mcpMethod === undefined || settings.mcp_retry_methods.some((method) => method === mcpMethod);
    return mayRetry ? settings.max_retries : 0;
  }

  return async ({ phase, body, mcpMethod, call, trace, parse }) => {
    const endpoint = phase === "access" ? "request" : "response";
    const open = pdp.checkBreaker();
    instruments.breakerState(open !== undefined);
    if (open !== undefined) return { kind: "open", open };
    const startedAt = clock.now();
    const { reply, error, tripped } = await pdp.call({
      // Exactly one slash at the join (PA-054).
      path: `${service.basePath}/sideband/${endpoint}`,
      headers: await headersFor(body, trace),
      body,
      timeoutMs: settings.connection_timeout_ms,
      signal: call.signal,
      retries: retriesFor(mcpMethod),
      budgetMs: call.budgetMs,
    });
    if (tripped !== undefined) instruments.breakerState(true);
    const isSuccess = reply !== undefined && reply.status >= 200 && reply.status < 300;
    const parsed = isSuccess ? parse(reply.body) : undefined;
    const result = parsed?.decision ?? "error";
    instruments.called(phase, result, clock.now() - startedAt);
    if (result !== "error") instruments.decided(result);
    const problem = error ?? (isSuccess ? "the answer is not valid" : `status ${reply?.status}`);
    trace.span?.end({
      attributes: {
        "http.method": "POST",
        "http.url": `${service.shown}/sideband/${endpoint}`,
        ...(reply === undefined ? {} : { "http.status_code": reply.status }),
        ...(result === "error" ? {} : { "policy.decision": result }),
        "circuit_breaker.state": tripped === undefined ? "closed" : "open",
      },
      ...(result === "error" ? { error: problem } : {}),
    });
    if (parsed !== undefined) return { kind: "answer", answer: parsed.answer };
    return reply === undefined ? { kind: "failed", error: problem } : { kind: "reply", reply, tripped };
  };
}

/** The answer to an access query. */
export type AccessAnswer =
  | { readonly kind: "allow"; readonly allowed: AllowedRequest }
  | { readonly kind: "deny"; readonly refusal: PolicyResponse }
  /** Not JSON of the expected form: there is no decision. */
  | { readonly kind: "invalid" }
  /** A decision that cannot be carried out; it never fails open (PA-208). */
  | { readonly kind: "unusable" };

/** The request as the policy wants it. Members that the answer lacks are undefined and mean no change. */
export interface AllowedRequest {
  readonly sourceIp: unknown;
  readonly sourcePort: unknown;
  readonly certificate: unknown;
  readonly method: string | undefined;
  readonly url: string | undefined;
  readonly headers: HeaderMap | undefined;
  /** Missing and `null` are the same (PA-083). */
  readonly body: string | undefined;
  /** JSON text as it came (PA-071). */
  readonly state: string | undefined;
}

/** A response that the policy wrote. */
export interface PolicyResponse {
  readonly status: number;
  readonly statusText: string;
  readonly headers: HeaderMap | undefined;
  readonly body: string;
}

/** The members of an access query and of an answer to it. */
const accessMembers: ReadonlySet<string> = new Set([
  "source_ip",
  "source_port",
  "method",
  "url",
  "body",
  "headers",
  "http_version",
  "client_certificate",
  "access_token",
  "state",
  "response",
  "traffic_type",
  "mcp",
  "extracted_headers",
]);

/** Whether an object is from something else than a Sideband API, such as `{"decision":"DENY"}`. An empty one allows (PA-070). */
function isForeign(value: Readonly<Record<string, unknown>>): boolean {
  const names = Object.keys(value);
  return names.length > 0 && !names.some((name) => accessMembers.has(name));
}

/** Parses the answer to an access query (PA-066 to PA-071, PA-208). */
export function parseAccessAnswer(body: Buffer): AccessAnswer {
  const value = isUtf8(body) ? parseJson(body.toString("utf8")) : undefined;
  if (!isObject(value)) return { kind: "invalid" };
  if (isAmbiguous(body) || hasOtherSpelling(value)) return { kind: "unusable" };
  if (isForeign(value)) return { kind: "invalid" };
  const { response, method, url, body: newBody } = value;
  if (!isAbsent(response)) {
    const refusal = parsePolicyResponse(response);
    return typeof refusal === "string" ? { kind: "unusable" } : { kind: "deny", refusal };
  }
  const headers = parseHeaders(value["headers"]);
  if (headers === "invalid" || !isTextOrAbsent(method) || !isTextOrAbsent(url) || !isTextOrAbsent(newBody))
    return { kind: "invalid" };
  return {
    kind: "allow",
    allowed: {
      sourceIp: value["source_ip"],
      sourcePort: value["source_port"],
      certificate: value["client_certificate"],
      method: method ?? undefined,
      url: url ?? undefined,
      headers,
      body: newBody ?? undefined,
      state: isAbsent(value["state"]) ? undefined : memberText(body, "state"),
    },
  };
}

/** The answer to a response query; the kinds are those of {@link AccessAnswer}. */
export type ResponseResult =
  | { readonly kind: "result"; readonly result: PolicyResponse }
  | { readonly kind: "invalid" }
  | { readonly kind: "unusable" };

/** Parses the answer to a response query (PA-092, PA-094, PA-208). */
export function parseResponseResult(body: Buffer): ResponseResult {
  const value = isUtf8(body) ? parseJson(body.toString("utf8")) : undefined;
  if (!isObject(value)) return { kind: "invalid" };
  if (isAmbiguous(body)) return { kind: "unusable" };
  const result = parsePolicyResponse(value);
  if (result === "status") return { kind: "unusable" };
  return result === "shape" ? { kind: "invalid" } : { kind: "result", result };
}

/**
 * Whether a member of the answer, or of its `response`, occurs twice: with `"response": {…}` and `"response": null`, say, it
 * is unknown whether the policy refused (RFC 8259, section 4). Deeper objects are the policy's own.
 */
function isAmbiguous(body: Buffer): boolean {
  const outline = scan(body, 0, Number.MAX_SAFE_INTEGER);
  if (!outline.ok) return true;
  if (outline.duplicateAt < 0) return false;
  const members = [...membersOf(body, outline)];
  const response = members.find(({ name, value }) => name === "response" && typeAt(body, value.start) === "object");
  const own = response === undefined ? [] : [...membersOf(body, response.value)];
  return [members, own].some((list) => new Set(list.map(({ name }) => name)).size < list.length);
}

/** Whether a refusal may be meant by a member whose name differs in letter case only. */
function hasOtherSpelling(value: Readonly<Record<string, unknown>>): boolean {
  return Object.keys(value).some((name) => name !== "response" && name.toLowerCase() === "response");
}

/** The response, or which part of it is unusable. */
function parsePolicyResponse(value: unknown): PolicyResponse | "status" | "shape" {
  if (!isObject(value)) return "shape";
  const status = parseStatus(value["response_code"]);
  if (status === undefined) return "status";
  const { body, response_status: text } = value;
  const headers = parseHeaders(value["headers"]);
  if (!isTextOrAbsent(body) || headers === "invalid") return "shape";
  return { status, statusText: typeof text === "string" ? text : "", headers, body: body ?? "" };
}

function parseHeaders(value: unknown): HeaderMap | undefined | "invalid" {
  return isAbsent(value) ? undefined : (fromSidebandHeaders(value) ?? "invalid");
}

/** A status from 100 to 599, as a number or string (PA-208). */
function parseStatus(code: unknown): number | undefined {
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

/** The error message in a body, wherever the templates of PingAuthorize put it (PA-168). */
export function messageInBody(body: string): string | undefined {
  const value = parseJson(body);
  if (!isObject(value)) return undefined;
  const { message, errorMessage, error_description: description, error } = value;
  const candidates = [message, errorMessage, description, isObject(error) ? error["message"] : undefined];
  return candidates.find((text): text is string => typeof text === "string" && text !== "");
}
