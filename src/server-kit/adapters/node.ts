import { once } from "node:events";
import { createServer, type IncomingMessage, type ServerResponse } from "node:http";
import type { AddressInfo } from "node:net";
import { Readable } from "node:stream";

import type { HttpEdge, PeerDetails } from "../http/contract.ts";

/** Connections that may wait to be taken; of those that come beyond that, the system tries again only a second later. */
const backlog = 4096;

/** A listener for `http.createServer` and `https.createServer`; paths that are not the kit's are 404. */
export function toNodeListener(kit: Mountable): (incoming: IncomingMessage, outgoing: ServerResponse) => void {
  return (incoming, outgoing) => {
    handleNodeRequest(kit, incoming, outgoing).then(
      (isOurs) => {
        if (!isOurs) outgoing.writeHead(404, { "content-type": "application/json" }).end('{"error":"not_found"}');
      },
      () => {
        // The kit answers its own faults; what is left is a socket that broke in between.
        outgoing.destroy();
      },
    );
  };
}

/** Where to listen. */
export interface KitListenOptions {
  /** 5110 unless said otherwise; 0 takes a free one. */
  readonly port?: number;
  /** Loopback unless said otherwise: whoever wants the network has to say so. */
  readonly host?: string;
}

/** A kit that listens. */
export interface ListeningServer extends AsyncDisposable {
  /** Without a slash at its end. */
  readonly url: string;
  /** Shuts the kit down, then closes the listener (KO-080). */
  close(): Promise<void>;
}

/** Serves a kit by itself, for programs that have no server of their own. */
export async function listen(
  kit: Pick<HttpEdge, "handle" | "shutdown">,
  { port = 5110, host = "127.0.0.1" }: KitListenOptions = {},
): Promise<ListeningServer> {
  const server = createServer(toNodeListener(kit));
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
    await done;
  }
  const closeOnce = async (): Promise<void> => (closed ??= close());
  return { url: `http://${name}:${bound}`, close: closeOnce, [Symbol.asyncDispose]: closeOnce };
}

/** What adapters mount: a kit, or only its edge. */
export type Mountable = Pick<HttpEdge, "handle">;

/** How a request is taken over from a host. */
export interface NodeRequestOptions {
  /** Path under which the host mounted the kit; the request's path has it no more. */
  readonly prefix?: string | undefined;
  /** The path with its query, where the host has changed it. */
  readonly path?: string | undefined;
  /** The body that the host has read and parsed already. */
  readonly parsedBody?: unknown;
  /** Told when the answer is ours, before anything of it is written. */
  readonly onTaken?: () => void;
}

/** How long a peer that has stopped reading may hold a finished response. */
const lingerMs = 5000;

/**
 * Answers a request of `node:http` with a kit. Says false, and has touched nothing, where the path is not the kit's.
 * What the peer does is felt on both sides: it goes away, and the calls stop; it reads slowly, and the stream waits.
 */
export async function handleNodeRequest(
  kit: Mountable,
  incoming: IncomingMessage,
  outgoing: ServerResponse,
  taken: NodeRequestOptions = {},
): Promise<boolean> {
  const gone = new AbortController();
  outgoing.once("close", () => {
    if (!outgoing.writableFinished) gone.abort();
  });
  const request = toRequest(incoming, taken, gone.signal);
  if (request === undefined) {
    taken.onTaken?.();
    outgoing.writeHead(400, { "content-type": "application/json" }).end('{"error":"invalid_request"}');
    return true;
  }
  const response = await kit.handle(request, readPeerDetails(incoming, taken.prefix));
  if (response === undefined) return false;
  taken.onTaken?.();
  await send(response, incoming, outgoing);
  return true;
}

/** What a socket tells about a request. */
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

function toRequest(incoming: IncomingMessage, taken: NodeRequestOptions, signal: AbortSignal): Request | undefined {
  const { method = "GET", headers } = incoming;
  const scheme = "encrypted" in incoming.socket && incoming.socket.encrypted === true ? "https" : "http";
  const path = taken.path ?? incoming.url ?? "/";
  const address = `${scheme}://${headers.host ?? "localhost"}${path.startsWith("/") ? path : `/${path}`}`;
  if (!URL.canParse(address)) return undefined;
  const hasBody = method !== "GET" && method !== "HEAD";
  try {
    return new Request(address, {
      method,
      headers: toHeaders(incoming),
      signal,
      ...(hasBody ? { body: bodyOf(incoming, taken.parsedBody), duplex: "half" } : {}),
    });
  } catch {
    // Methods and header values that HTTP allows and Request does not, such as TRACE.
    return undefined;
  }
}

function toHeaders({ rawHeaders }: IncomingMessage): Headers {
  const headers = new Headers();
  for (let index = 0; index + 1 < rawHeaders.length; index += 2) {
    const name = rawHeaders[index] ?? "";
    // Pseudo-headers of HTTP/2 are no headers.
    if (!name.startsWith(":")) headers.append(name, rawHeaders[index + 1] ?? "");
  }
  return headers;
}

function bodyOf(incoming: IncomingMessage, parsedBody: unknown): ReadableStream<Uint8Array> | string {
  // A body parser in front has read the stream to its end; what it made of it says the same.
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
  // Whoever still sends a body that nobody will read is not waited for.
  if (!incoming.complete && incoming.httpVersionMajor === 1) headers["connection"] = "close";
  const isStream = response.headers.get("content-type")?.startsWith("text/event-stream") === true;
  if (!isStream || body === null || incoming.method === "HEAD") {
    const bytes = Buffer.from(await response.arrayBuffer());
    if (bytes.length > 0 || response.status !== 204) headers["content-length"] = String(bytes.length);
    outgoing.writeHead(response.status, headers).end(bytes);
    return;
  }
  outgoing.writeHead(response.status, headers);
  // The client must see the stream open at once, before its first event.
  outgoing.flushHeaders();
  await pipe(body, outgoing);
}

async function pipe(body: ReadableStream<Uint8Array>, outgoing: ServerResponse): Promise<void> {
  const reader = body.getReader();
  const cancel = (): void => {
    // It may have failed before, which is no news then.
    reader.cancel().catch(() => {});
  };
  outgoing.once("close", cancel);
  try {
    for (let piece = await reader.read(); !piece.done; piece = await reader.read()) {
      if (!outgoing.write(piece.value) && !outgoing.destroyed) await waitForDrain(outgoing);
    }
  } catch {
    // The stream was broken off: so is the connection, because an orderly end would look like a complete stream.
    outgoing.destroy();
    return;
  }
  outgoing.end();
  const timer = setTimeout(() => outgoing.destroy(), lingerMs);
  timer.unref();
  outgoing.once("close", () => {
    clearTimeout(timer);
  });
}

async function waitForDrain(outgoing: ServerResponse): Promise<void> {
  const { promise, resolve } = Promise.withResolvers<void>();
  const done = (): void => {
    outgoing.off("drain", done);
    outgoing.off("close", done);
    resolve();
  };
  outgoing.on("drain", done);
  outgoing.on("close", done);
  await promise;
}

function nodeHeaders({ headers }: Response): Record<string, string | string[]> {
  const plain: Record<string, string | string[]> = {};
  for (const [name, value] of headers) plain[name] = value;
  const cookies = headers.getSetCookie();
  if (cookies.length > 0) plain["set-cookie"] = cookies;
  return plain;
}

/** A path with its query without the prefix in front; undefined where it does not stand below the prefix. */
export function withoutPrefix(path: string, prefix: string): string | undefined {
  const trimmed = prefix.replace(/\/+$/u, "");
  if (trimmed === "") return path;
  if (!path.startsWith(trimmed)) return undefined;
  const rest = path.slice(trimmed.length);
  if (rest === "") return "/";
  return rest.startsWith("/") || rest.startsWith("?") ? rest : undefined;
}
