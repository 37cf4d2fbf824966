import { once } from "node:events";
import type { IncomingMessage, RequestListener, ServerResponse } from "node:http";
import type * as z from "zod";

import { type ErrorCode, GatewayError } from "../../errors.ts";
import { errorFields } from "../../telemetry/log.ts";
import { readBody } from "../../transports/http/request-body.ts";
import { transportOf } from "../edge/http-reply.ts";
import type { AdminDeps } from "./deps.ts";
import type { ApiRequest, Endpoint } from "./endpoint.ts";
import { endpoints } from "./endpoints/endpoints.ts";
import { demandRight } from "./sign-in/sign-in.ts";
import { pageProblem } from "./sign-in/same-origin.ts";

/** Where the API begins. */
export const apiRoot = "/api/v1";

/** Large enough for a policy of thousands of rules. */
const maxBodyBytes = 4_194_304;
/** For callers that are not signed in, who only send a ticket and must not fill the memory. */
const maxUnknownBytes = 16_384;
const keepAliveMs = 15_000;

/** Statuses of the API where they differ from those of MCP. */
const statuses: Readonly<Partial<Record<ErrorCode, number>>> = {
  invalid_params: 400,
  method_not_found: 405,
  policy_denied: 403,
  config_invalid: 422,
  cancelled: 499,
};

/**
 * Serves the admin API: finds the endpoint, checks that no foreign page is asking, who is asking and whether they may,
 * checks the input, and answers. Every error has the same form: `{ error: { code, message, details } }`.
 */
export function createApiRouter(deps: AdminDeps): RequestListener {
  const origins = deps.publicUrl === undefined ? [] : [new URL(deps.publicUrl).origin];
  const isPublicSecure = deps.publicUrl?.startsWith("https:") === true;
  const table = endpoints.map((endpoint) => ({ endpoint, pattern: toPattern(endpoint.path) }));

  /** Finds the endpoint, and checks that the caller may use it. */
  async function admit(request: IncomingMessage, response: ServerResponse): Promise<Admitted> {
    const url = new URL(request.url ?? "/", "http://gateway");
    const path = url.pathname.slice(apiRoot.length);
    const matching = table.flatMap(({ endpoint, pattern }) => {
      const match = pattern.exec(path);
      return match === null ? [] : [{ endpoint, names: match.groups ?? {} }];
    });
    if (matching.length === 0) throw new GatewayError("not_found", `the admin API has no path ${path}`);
    const found = matching.find(({ endpoint }) => endpoint.method === request.method);
    if (found === undefined) {
      response.setHeader("allow", matching.map(({ endpoint }) => endpoint.method).join(", "));
      throw new GatewayError("method_not_found", `${path} does not take ${request.method ?? "this method"}`);
    }
    const { endpoint, names } = found;
    const problem = pageProblem(request, origins);
    if (problem !== undefined) throw new GatewayError("forbidden", problem);
    const caller = await deps.signIn.callerOf(request.headers);
    if (endpoint.right !== "none") {
      if (caller === undefined) throw new GatewayError("unauthenticated", "sign in first: run `headgate console`");
      demandRight(caller, endpoint.right, endpoint.name);
    }
    return { endpoint, names, url, caller: caller ?? nobody };
  }

  async function serve(
    { endpoint, names, url, caller }: Admitted,
    request: IncomingMessage,
    response: ServerResponse,
  ): Promise<void> {
    const gone = new AbortController();
    response.on("close", () => {
      gone.abort();
    });
    const input = {
      path: parse(endpoint.pathSchema, decoded(names), "path"),
      query: parse(endpoint.query, queryOf(url.searchParams), "query"),
      body:
        endpoint.body === undefined
          ? undefined
          : parse(
              endpoint.body,
              await readJson(request, endpoint.right === "none" ? maxUnknownBytes : maxBodyBytes),
              "body",
            ),
      caller,
      signal: gone.signal,
      http: { request, response, isSecure: isPublicSecure || "encrypted" in request.socket },
    };
    // The schemas have checked what the handler is declared to take.
    const checked = input as unknown as ApiRequest<never, never, never>;
    if (endpoint.serve.type === "json") respondJson(response, 200, await endpoint.serve.handle(checked, deps));
    else await serveEvents(endpoint.serve.handle, checked);
  }

  /** The stream begins with its first event, so that an earlier failure can still set the status. */
  async function serveEvents(
    handle: (Endpoint["serve"] & { readonly type: "events" })["handle"],
    request: ApiRequest<never, never, never>,
  ): Promise<void> {
    const { response } = request.http;
    const stopWatching = deps.signIn.watch(request.caller, () => response.destroy());
    let stopKeepAlive: (() => void) | undefined;
    const keepAlive = (): void => {
      stopKeepAlive = deps.setTimer(keepAliveMs, keepAlive);
      write(":\n\n");
    };
    const write = (text: string): boolean => {
      if (response.destroyed) return false;
      if (!response.headersSent) response.writeHead(200, eventHeaders);
      return response.write(text);
    };
    stopKeepAlive = deps.setTimer(keepAliveMs, keepAlive);
    try {
      const sendJson = (event: string, json: string): boolean => write(`event: ${event}\ndata: ${json}\n\n`);
      await handle(request, deps, {
        send: (event, data) => sendJson(event, JSON.stringify(data)),
        sendJson,
        drained: async () => {
          if (response.writableNeedDrain) await once(response, "drain", { signal: request.signal });
        },
      });
      response.end();
    } catch (error) {
      if (!response.headersSent) throw error;
      write(`event: failed\ndata: ${JSON.stringify(bodyOf(report(error)))}\n\n`);
      response.end();
    } finally {
      stopKeepAlive();
      stopWatching();
    }
  }

  function report(thrown: unknown): GatewayError {
    const error = GatewayError.from(thrown);
    if (error.code === "internal") deps.log.error(errorFields(error), "admin API failed");
    return error;
  }

  function fail(response: ServerResponse, error: GatewayError): void {
    if (response.headersSent || response.destroyed) return;
    respondJson(response, statusOf(error), bodyOf(error));
  }

  async function answer(request: IncomingMessage, response: ServerResponse): Promise<void> {
    let admitted: Admitted;
    try {
      admitted = await admit(request, response);
    } catch (thrown) {
      const error = report(thrown);
      const { code, message: reason } = error;
      const transport = transportOf(request);
      deps.noteRefusal({ route: undefined, code, status: statusOf(error), reason, transport });
      fail(response, error);
      return;
    }
    await serve(admitted, request, response);
  }

  return (request, response) => {
    answer(request, response).catch((thrown: unknown) => {
      fail(response, report(thrown));
    });
  };
}

/** A request that may be served. */
interface Admitted {
  readonly endpoint: Endpoint;
  readonly names: Readonly<Record<string, string>>;
  readonly url: URL;
  readonly caller: ApiRequest<never, never, never>["caller"];
}

function statusOf({ code, facts }: GatewayError): number {
  return statuses[code] ?? facts.http ?? 500;
}

const nobody = { name: "nobody", rights: [] } as const;

const apiHeaders = {
  "cache-control": "no-store",
  "x-content-type-options": "nosniff",
  "cross-origin-resource-policy": "same-origin",
  "content-security-policy": "default-src 'none'; frame-ancestors 'none'",
};

const eventHeaders = {
  ...apiHeaders,
  "content-type": "text/event-stream",
  "cache-control": "no-store, no-transform",
  // Keeps nginx from buffering the stream: an event would wait for those after it.
  "x-accel-buffering": "no",
};

function respondJson(response: ServerResponse, status: number, value: unknown): void {
  const body = Buffer.from(JSON.stringify(value));
  response.writeHead(status, { ...apiHeaders, "content-type": "application/json", "content-length": body.length });
  response.end(body);
}

function bodyOf({ code, message, details }: GatewayError): unknown {
  return { error: { code, message, ...(details === undefined ? {} : { details }) } };
}

function parse(schema: z.ZodType, value: unknown, place: "path" | "query" | "body"): unknown {
  const parsed = schema.safeParse(value);
  if (parsed.success) return parsed.data;
  const problems = parsed.error.issues.map(({ path, message }) => ({ at: [place, ...path].join("."), message }));
  const [first] = problems;
  throw new GatewayError("invalid_params", `${first?.at ?? place}: ${first?.message ?? "is not valid"}`, {
    details: { problems },
  });
}

async function readJson(request: IncomingMessage, maxBytes: number): Promise<unknown> {
  // A form of a foreign page can send text, but not this content type without a preflight.
  if (!/^application\/json\b/iu.test(request.headers["content-type"] ?? ""))
    throw new GatewayError("invalid_params", "the body must be application/json");
  const body = await readBody(request, maxBytes);
  try {
    return JSON.parse(body.toString()) as unknown;
  } catch {
    throw new GatewayError("parse_error", "the body is not JSON");
  }
}

/** The query as an object; a repeated name becomes an array, which no schema accepts by mistake. */
function queryOf(search: URLSearchParams): Readonly<Record<string, string | readonly string[]>> {
  const names = new Set(search.keys());
  return Object.fromEntries(
    [...names].map((name) => {
      const all = search.getAll(name);
      return [name, all.length === 1 ? (all[0] ?? "") : all];
    }),
  );
}

function decoded(names: Readonly<Record<string, string>>): Readonly<Record<string, string>> {
  try {
    return Object.fromEntries(Object.entries(names).map(([name, value]) => [name, decodeURIComponent(value)]));
  } catch {
    throw new GatewayError("invalid_params", "the path is not valid percent-encoding");
  }
}

function toPattern(path: string): RegExp {
  return new RegExp(`^${path.replaceAll(/\{(\w+)\}/gu, "(?<$1>[^/]+)")}$`, "u");
}
