import { once } from "node:events";
import { createServer, type IncomingMessage, type Server, type ServerResponse } from "node:http";
import type { AddressInfo, Socket } from "node:net";
import { Readable } from "node:stream";
import { pipeline } from "node:stream/promises";
import type { ReadableStream as WebReadableStream } from "node:stream/web";

import type { HttpEdge, PeerDetails } from "../http/contract.ts";

/** How many connections may wait to be accepted; the client of a further one retries only after a second. */
const backlog = 4096;

/**
 * A request listener for `http.createServer` and `https.createServer`. Other paths get 404.
 *
 * @example
 * https.createServer({ key, cert }, toNodeListener(kit)).listen(443);
 */
export function toNodeListener(
  kit: Pick<HttpEdge, "handle">,
): (incoming: IncomingMessage, outgoing: ServerResponse) => void {
  return (incoming, outgoing) => {
    handleNodeRequest(kit, incoming, outgoing).then(
      (isHandled) => {
        if (!isHandled) outgoing.writeHead(404, { "content-type": "application/json" }).end('{"error":"not_found"}');
      },
      () => {
        // The kit answers its own errors, so the socket has failed.
        outgoing.destroy();
      },
    );
  };
}

/** The options of `listen`. */
export interface KitListenOptions {
  /** Default: 5110; 0 for a free port. */
  readonly port?: number;
  /** Default: 127.0.0.1. */
  readonly host?: string;
}

/** A listening kit. */
export interface ListeningServer extends AsyncDisposable {
  /** Without a trailing slash. */
  readonly url: string;
  /** Shuts the kit down, then closes the listener (KO-080). */
  close(): Promise<void>;
}

/**
 * Serves a kit with an HTTP server of its own.
 *
 * @example
 * const { url, close } = await listen(kit, { port: 5110 });
 */
export async function listen(
  kit: Pick<HttpEdge, "handle" | "shutdown">,
  { port = 5110, host = "127.0.0.1" }: KitListenOptions = {},
): Promise<ListeningServer> {
  const server = createServer(toNodeListener(kit));
  const cutHalfSent = trackRequests(server);
  server.listen({ port, host, backlog });
  await once(server, "listening");
  // Only a server on a pipe has another kind of address.
  const { address, family, port: bound } = server.address() as AddressInfo;
  const name = family === "IPv6" ? `[${address}]` : address;
  let closed: Promise<void> | undefined;
  async function close(): Promise<void> {
    await kit.shutdown();
    const done = once(server, "close");
    server.close();
    server.closeIdleConnections();
    cutHalfSent();
    // What is left are the last bytes of answers.
    const timer = setTimeout(() => server.closeAllConnections(), lingerMs);
    await done;
    clearTimeout(timer);
  }
  const closeOnce = async (): Promise<void> => (closed ??= close());
  return { url: `http://${name}:${bound}`, close: closeOnce, [Symbol.asyncDispose]: closeOnce };
}

/**
 * Tracks the requests of a server; the returned function cuts every connection on which no answer is being sent. Such a
 * client has sent half a request, and may never send the rest.
 */
function trackRequests(server: Server): () => void {
  const sockets = new Set<Socket>();
  const answers = new Map<ServerResponse, IncomingMessage>();
  server.on("connection", (socket) => {
    sockets.add(socket);
    socket.once("close", () => sockets.delete(socket));
  });
  server.on("request", (incoming, outgoing) => {
    answers.set(outgoing, incoming);
    outgoing.once("close", () => answers.delete(outgoing));
  });
  return () => {
    const answering = new Set<Socket>();
    for (const [outgoing, incoming] of answers) {
      if (outgoing.headersSent || incoming.complete) answering.add(incoming.socket);
    }
    for (const socket of sockets) if (!answering.has(socket)) socket.destroy();
  };
}

/** What a host has done with a request. */
export interface NodeRequestOptions {
  /** The path under which the host mounted the kit, already removed from the request's path. */
  readonly prefix?: string | undefined;
  /** The path with its query, if it differs from the message's. */
  readonly path?: string | undefined;
  /** The body, if the host has parsed it already. */
  readonly parsedBody?: unknown;
  /** Called before the response is written. */
  readonly onHandled?: () => void;
}

/** How long a client that has stopped reading may hold a finished response. */
const lingerMs = 5000;

/**
 * Answers a request of `node:http` with a kit; false if the path is not the kit's. A disconnect aborts the request, and
 * a slow reader pauses the stream.
 */
export async function handleNodeRequest(
  kit: Pick<HttpEdge, "handle">,
  incoming: IncomingMessage,
  outgoing: ServerResponse,
  options: NodeRequestOptions = {},
): Promise<boolean> {
  const gone = new AbortController();
  outgoing.once("close", () => {
    if (!outgoing.writableFinished) gone.abort();
  });
  const request = toRequest(incoming, options, gone.signal);
  if (request === undefined) {
    options.onHandled?.();
    outgoing.writeHead(400, { "content-type": "application/json" }).end('{"error":"invalid_request"}');
    return true;
  }
  const response = await kit.handle(request, readPeerDetails(incoming, options.prefix));
  if (response === undefined) return false;
  options.onHandled?.();
  await send(response, incoming, outgoing);
  return true;
}

/** The peer details of a request's socket. */
export function readPeerDetails(incoming: IncomingMessage, prefix?: string): PeerDetails {
  const { socket, httpVersion } = incoming;
  return {
    address: socket.remoteAddress,
    localAddress: socket.localAddress,
    encrypted: "encrypted" in socket && socket.encrypted === true,
    httpVersion,
    prefix,
    native: incoming,
  };
}

function toRequest(incoming: IncomingMessage, options: NodeRequestOptions, signal: AbortSignal): Request | undefined {
  const { method = "GET", headers } = incoming;
  const scheme = "encrypted" in incoming.socket && incoming.socket.encrypted === true ? "https" : "http";
  const path = options.path ?? incoming.url ?? "/";
  const address = `${scheme}://${headers.host ?? "localhost"}${path.startsWith("/") ? path : `/${path}`}`;
  if (!URL.canParse(address)) return undefined;
  const hasBody = method !== "GET" && method !== "HEAD";
  try {
    return new Request(address, {
      method,
      headers: toHeaders(incoming),
      signal,
      ...(hasBody ? { body: bodyOf(incoming, options.parsedBody), duplex: "half" } : {}),
    });
  } catch {
    // HTTP allows methods and header values that Request does not, such as TRACE.
    return undefined;
  }
}

function toHeaders({ rawHeaders }: IncomingMessage): Headers {
  const headers = new Headers();
  for (let index = 0; index + 1 < rawHeaders.length; index += 2) {
    const name = rawHeaders[index] ?? "";
    // Skips the pseudo-headers of HTTP/2.
    if (!name.startsWith(":")) headers.append(name, rawHeaders[index + 1] ?? "");
  }
  return headers;
}

function bodyOf(incoming: IncomingMessage, parsedBody: unknown): ReadableStream<Uint8Array> | string {
  // A body parser has consumed the stream.
  if (incoming.readableEnded && parsedBody !== undefined) {
    return typeof parsedBody === "string" ? parsedBody : JSON.stringify(parsedBody);
  }
  return Readable.toWeb(incoming) as ReadableStream<Uint8Array>;
}

async function send(response: Response, incoming: IncomingMessage, outgoing: ServerResponse): Promise<void> {
  const headers = nodeHeaders(response);
  const { body } = response;
  if (outgoing.destroyed) {
    await body?.cancel();
    return;
  }
  // Do not wait for the rest of a body that nobody reads.
  if (!incoming.complete && incoming.httpVersionMajor === 1) headers["connection"] = "close";
  const isStream = response.headers.get("content-type")?.startsWith("text/event-stream") === true;
  if (!isStream || body === null || incoming.method === "HEAD") {
    const bytes = Buffer.from(await response.arrayBuffer());
    if (bytes.length > 0 || response.status !== 204) headers["content-length"] = String(bytes.length);
    outgoing.writeHead(response.status, headers).end(bytes);
    return;
  }
  outgoing.writeHead(response.status, headers);
  // The client must see the stream open before its first event.
  outgoing.flushHeaders();
  await pipe(body, outgoing);
}

/** Pipes a stream; a failed stream destroys the response, because a regular end would look complete. */
async function pipe(body: ReadableStream<Uint8Array>, outgoing: ServerResponse): Promise<void> {
  const source = Readable.fromWeb(body as WebReadableStream, { highWaterMark: 1 });
  source.once("end", () => {
    const timer = setTimeout(() => outgoing.destroy(), lingerMs).unref();
    outgoing.once("close", () => clearTimeout(timer));
  });
  // Rejects if either side fails, and has destroyed both then.
  await pipeline(source, outgoing).catch(() => {});
}

function nodeHeaders({ headers }: Response): Record<string, string | string[]> {
  const plain: Record<string, string | string[]> = {};
  for (const [name, value] of headers) plain[name] = value;
  const cookies = headers.getSetCookie();
  if (cookies.length > 0) plain["set-cookie"] = cookies;
  return plain;
}

/** A path without the prefix in front; undefined if it is not below the prefix. */
export function withoutPrefix(path: string, prefix: string): string | undefined {
  const trimmed = prefix.replace(/\/+$/u, "");
  if (trimmed === "") return path;
  if (!path.startsWith(trimmed)) return undefined;
  const rest = path.slice(trimmed.length);
  if (rest === "") return "/";
  return rest.startsWith("/") || rest.startsWith("?") ? rest : undefined;
}
