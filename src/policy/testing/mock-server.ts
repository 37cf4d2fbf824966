import { createServer as createHttpServer, type IncomingMessage, type Server, type ServerResponse } from "node:http";
import { createServer as createHttpsServer } from "node:https";
import type { AddressInfo } from "node:net";
import { text } from "node:stream/consumers";

/** Key and certificates for https, as PEM; with `requestCert` the mock asks for a client certificate. */
export interface MockTlsOptions {
  readonly key: string;
  readonly cert: string;
  readonly ca?: string;
  readonly requestCert?: boolean;
  readonly rejectUnauthorized?: boolean;
}

/** A listening mock. */
export interface ListeningMock {
  readonly server: Server;
  readonly origin: string;
  readonly port: number;
  readonly close: () => Promise<void>;
}

/** Starts a server on the loopback interface. What `answer` throws goes to `onError`. */
export async function startMockServer(
  answer: (request: IncomingMessage, response: ServerResponse, text: string) => Promise<void>,
  onError: (response: ServerResponse, error: unknown) => void,
  { tls, port = 0 }: { readonly tls?: MockTlsOptions | undefined; readonly port?: number | undefined },
): Promise<ListeningMock> {
  const listener = (request: IncomingMessage, response: ServerResponse): void => {
    text(request)
      .then((body) => answer(request, response, body))
      .catch((error: unknown) => onError(response, error));
  };
  const server = tls === undefined ? createHttpServer(listener) : createHttpsServer(tls, listener);
  const listening = Promise.withResolvers<void>();
  server.once("error", listening.reject);
  server.listen(port, "127.0.0.1", () => listening.resolve());
  await listening.promise;
  // It listens on a port, not on a path.
  const address = server.address() as AddressInfo;
  return {
    server,
    port: address.port,
    origin: `${tls === undefined ? "http" : "https"}://127.0.0.1:${address.port}`,
    close: async () => {
      server.closeAllConnections();
      const closed = Promise.withResolvers<void>();
      server.close(() => closed.resolve());
      await closed.promise;
    },
  };
}

/** Sends a body, as JSON unless the headers say otherwise. */
export function send(
  response: ServerResponse,
  status: number,
  headers: Readonly<Record<string, string>>,
  body: string,
): void {
  response.writeHead(status, { "content-type": "application/json", ...headers });
  response.end(body);
}
