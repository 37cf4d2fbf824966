import { once } from "node:events";
import { createServer, request as httpRequest } from "node:http";
import type { AddressInfo } from "node:net";
import { pipeline } from "node:stream";

/** A proxy that sends each request to the next server, without looking at it. */
export interface RoundRobin extends AsyncDisposable {
  readonly origin: string;
  readonly url: string;
  /** The servers in turn; a test takes one out or puts another in. */
  readonly servers: string[];
}

/** Starts the proxy on a free port. A server that refuses the connection is passed over. */
export async function startRoundRobin(servers: string[]): Promise<RoundRobin> {
  let turn = 0;
  // Longer than a client keeps an idle connection, which could else break under its next request.
  const proxy = createServer({ keepAliveTimeout: 75_000 }, (request, response) => {
    const chunks: Buffer[] = [];
    request.on("data", (chunk: Buffer) => chunks.push(chunk));
    request.on("end", () => {
      // Its own list: other requests take turns meanwhile.
      const first = turn++ % Math.max(1, servers.length);
      send(Buffer.concat(chunks), [...servers.slice(first), ...servers.slice(0, first)]);
    });
    function send(body: Buffer, [server, ...others]: readonly string[]): void {
      if (server === undefined) {
        response.writeHead(502).end();
        return;
      }
      const { method = "GET", url = "/", headers } = request;
      const forwarded = httpRequest(new URL(url, server), { method, headers, agent: false }, (answer) => {
        response.writeHead(answer.statusCode ?? 502, answer.headers);
        response.flushHeaders();
        pipeline(answer, response, () => {});
      });
      forwarded.on("error", (error: NodeJS.ErrnoException) => {
        if (error.code === "ECONNREFUSED") send(body, others);
        else response.destroy();
      });
      response.on("close", () => forwarded.destroy());
      forwarded.end(body);
    }
  });
  proxy.listen(0, "127.0.0.1");
  await once(proxy, "listening");
  const origin = `http://127.0.0.1:${(proxy.address() as AddressInfo).port}`;
  return {
    origin,
    url: `${origin}/mcp`,
    servers,
    [Symbol.asyncDispose]: async () => {
      const closed = once(proxy, "close");
      proxy.close();
      proxy.closeAllConnections();
      await closed;
    },
  };
}
