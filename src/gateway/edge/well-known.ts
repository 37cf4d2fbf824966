import type { IncomingMessage, RequestListener, ServerResponse } from "node:http";
import { metadataPrefix } from "../../auth/resource-server.ts";
import { GatewayError } from "../../errors.ts";
import type { RouteAuthentication } from "./route-authentication.ts";

/** What the metadata of a route needs. */
export interface DescribedRoute {
  readonly prefixes: readonly string[];
  readonly authentication: RouteAuthentication;
}

type Document = Readonly<Record<string, unknown>>;

/**
 * Creates the documents that tell clients where to get a token, by path: one for each endpoint (RFC 9728, section 3.1), one
 * at the root for the endpoint `/mcp`, and a copy of the authorization server's metadata for clients of 2025-03-26, which
 * look for it here. Behind a proxy, the public path may be part of the request or not.
 */
export function createWellKnown(
  routes: readonly DescribedRoute[],
  publicPath: string,
  issuerDocument: (issuer: string, request: IncomingMessage) => Promise<Document | undefined>,
): ReadonlyMap<string, RequestListener> {
  const listeners = new Map<string, RequestListener>();
  const described = routes.filter(({ authentication }) => authentication.issuers.length > 0);
  for (const { prefixes, authentication } of described) {
    for (const prefix of prefixes) {
      for (const path of [`${prefix}/mcp`, `${prefix}/sse`]) {
        const listener: RequestListener = (request, response) => {
          answer(request, response, authentication.metadata(request, path));
        };
        listeners.set(`${metadataPrefix}${path}`, listener);
        listeners.set(`${metadataPrefix}${publicPath}${path}`, listener);
        if (path === "/mcp") listeners.set(metadataPrefix, listener);
      }
    }
  }
  const main = described.find(({ prefixes }) => prefixes.includes("")) ?? described[0];
  const [issuer] = main?.authentication.issuers ?? [];
  if (issuer !== undefined) {
    listeners.set("/.well-known/oauth-authorization-server", (request, response) => {
      issuerDocument(issuer, request).then(
        (document) => {
          answer(request, response, document);
        },
        (error: unknown) => {
          const { code, facts } = GatewayError.from(error);
          const isOverload = code === "rate_limited" || code === "overloaded";
          if (isOverload) response.setHeader("retry-after", "1");
          write(response, facts.http ?? 502, { error: isOverload ? "too many requests" : "cannot reach the issuer" });
        },
      );
    });
  }
  return listeners;
}

function answer(request: IncomingMessage, response: ServerResponse, document: Document | undefined): void {
  // The document may name the host that this caller used, and changes with the configuration.
  response.setHeader("cache-control", "no-store");
  // Readable from any origin: nothing in them is secret, and clients in browsers need them.
  response.setHeader("access-control-allow-origin", "*");
  if (request.method === "OPTIONS") {
    response.writeHead(204, {
      "access-control-allow-methods": "GET, HEAD, OPTIONS",
      "access-control-allow-headers": request.headers["access-control-request-headers"] ?? "*",
    });
    response.end();
  } else if (request.method !== "GET" && request.method !== "HEAD") {
    response.setHeader("allow", "GET, HEAD, OPTIONS");
    write(response, 405, { error: "this document is read-only" });
  } else if (document === undefined) write(response, 404, { error: "not found" });
  else write(response, 200, document);
}

function write(response: ServerResponse, status: number, document: Document): void {
  const body = Buffer.from(JSON.stringify(document));
  response.writeHead(status, { "content-type": "application/json", "content-length": body.length });
  response.end(body);
}
