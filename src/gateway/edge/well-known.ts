import type { IncomingMessage, RequestListener, ServerResponse } from "node:http";
import { metadataPrefix } from "../../auth/resource-server.ts";
import { GatewayError } from "../../errors.ts";
import type { RouteAuthentication } from "./route-authentication.ts";

/** A route as far as its metadata go. */
export interface DescribedRoute {
  readonly prefixes: readonly string[];
  readonly authentication: RouteAuthentication;
}

type Document = Readonly<Record<string, unknown>>;

/**
 * Makes the documents by which clients find out where to get a token, by their paths: one for each endpoint (RFC 9728
 * section 3.1), one at the root for the endpoint at `/mcp`, and for clients of 2025-03-26, which look for the
 * authorization server here, a copy of what it says of itself. Behind a proxy that shows us under a path of its own
 * that path may be there or not.
 */
export function createWellKnown(
  routes: readonly DescribedRoute[],
  publicPath: string,
  issuerDocument: (issuer: string) => Promise<Document | undefined>,
): ReadonlyMap<string, RequestListener> {
  const listeners = new Map<string, RequestListener>();
  const described = routes.filter(({ authentication: door }) => door.issuers.length > 0);
  for (const { prefixes, authentication: door } of described) {
    for (const prefix of prefixes) {
      for (const path of [`${prefix}/mcp`, `${prefix}/sse`]) {
        const listener: RequestListener = (request, response) => {
          answer(request, response, door.metadata(request, path));
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
      issuerDocument(issuer).then(
        (document) => {
          answer(request, response, document);
        },
        (error: unknown) => {
          write(response, GatewayError.from(error).facts.http ?? 502, {
            error: "the issuer cannot be reached",
          });
        },
      );
    });
  }
  return listeners;
}

function answer(request: IncomingMessage, response: ServerResponse, document: Document | undefined): void {
  // Pages of any origin may read them: there is nothing secret in them, and clients in browsers need them.
  response.setHeader("access-control-allow-origin", "*");
  if (request.method === "OPTIONS") {
    response.writeHead(204, {
      "access-control-allow-methods": "GET, HEAD, OPTIONS",
      "access-control-allow-headers": request.headers["access-control-request-headers"] ?? "*",
    });
    response.end();
  } else if (request.method !== "GET" && request.method !== "HEAD") {
    response.setHeader("allow", "GET, HEAD, OPTIONS");
    write(response, 405, { error: "this document can only be read" });
  } else if (document === undefined) write(response, 404, { error: "there is no such document" });
  else write(response, 200, document);
}

function write(response: ServerResponse, status: number, document: Document): void {
  const body = Buffer.from(JSON.stringify(document));
  response.writeHead(status, { "content-type": "application/json", "content-length": body.length });
  response.end(body);
}
