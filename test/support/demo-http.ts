import { once } from "node:events";
import { createServer, type IncomingMessage, type RequestListener } from "node:http";
import type { AddressInfo } from "node:net";

import { toNodeHandler } from "@modelcontextprotocol/node";
import { createMcpHandler } from "@modelcontextprotocol/server";

import { createDemoServer } from "../../src/demo/server.ts";
import { createLegacySessions } from "../fixtures/everything/legacy-sessions.ts";
import { createLegacySse } from "../fixtures/everything/legacy-sse.ts";

/** Something that listens on loopback until it is disposed of. */
export interface LoopbackServer extends AsyncDisposable {
  readonly origin: string;
}

/** Listens on a free port of loopback. */
export async function listenOnLoopback(listener: RequestListener): Promise<LoopbackServer> {
  const server = createServer(listener);
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  return {
    // Only a server on a pipe has another kind of address.
    origin: `http://127.0.0.1:${(server.address() as AddressInfo).port}`,
    [Symbol.asyncDispose]: async () => {
      server.closeAllConnections();
      server.close();
      await once(server, "close");
    },
  };
}

/**
 * Serves the demo server as the official SDK serves: the modern era at /modern, legacy sessions at /legacy, and HTTP+SSE
 * at /sse. Each asks for `token` if one is given.
 */
export async function serveDemo({ token }: { readonly token?: string } = {}): Promise<LoopbackServer> {
  const modern = toNodeHandler(createMcpHandler(createDemoServer, { legacy: "reject" }));
  const legacy = toNodeHandler({ fetch: createLegacySessions(createDemoServer) });
  const sse = createLegacySse(createDemoServer);
  return listenOnLoopback((request, response) => {
    void (async () => {
      if (token !== undefined && request.headers.authorization !== `Bearer ${token}`) {
        response.writeHead(401, { "www-authenticate": "Bearer" }).end();
      } else if (request.url === "/modern") await modern(request as ServedRequest, response);
      else if (request.url === "/legacy") await legacy(request as ServedRequest, response);
      else if (!(await sse(request, response))) response.writeHead(404).end();
    })().catch((error: unknown) => {
      response.destroy(error instanceof Error ? error : undefined);
    });
  });
}

/** Node sets both on every request that a server receives. */
type ServedRequest = IncomingMessage & { readonly method: string; readonly url: string };
