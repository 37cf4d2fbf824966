import type { ClientRequest, IncomingMessage } from "node:http";
import { Agent as HttpsAgent, request as httpsRequest } from "node:https";
import { isIP, type Socket } from "node:net";

import type { SetTimer } from "../../core/exchange.ts";
import { nodeHttp } from "../../lib/lazy-modules.ts";

/** The parsed base URL of a decision point. */
export interface ServiceUrl {
  readonly isHttps: boolean;
  /** As written in the URL: an IPv6 address has brackets. */
  readonly host: string;
  readonly port: number;
  /** Without a trailing slash; empty if the URL has no path. */
  readonly basePath: string;
  /** Without credentials, for logs and spans. */
  readonly shown: string;
}

/** Parses a checked URL, with the default port of its scheme (PA-056). */
export function parseServiceUrl(text: string): ServiceUrl {
  const url = new URL(text);
  const isHttps = url.protocol === "https:";
  const basePath = url.pathname.replace(/\/+$/u, "");
  return {
    isHttps,
    host: url.hostname,
    port: url.port === "" ? (isHttps ? 443 : 80) : Number(url.port),
    basePath,
    shown: `${url.protocol}//${url.host}${basePath}`,
  };
}

/** One HTTP request to a decision point. */
export interface PdpRequest {
  /** Defaults to `POST`. */
  readonly method?: "GET" | "POST";
  /** Such as `/policy/sideband/request`. */
  readonly path: string;
  /** Written in this order and spelling. */
  readonly headers: Readonly<Record<string, string>>;
  readonly body: Buffer;
  /** Maximum milliseconds to connect, write and read (PA-014). */
  readonly timeoutMs: number;
  readonly signal: AbortSignal | undefined;
}

/** The reply of a decision point, of any status. */
export interface PdpReply {
  readonly status: number;
  /** Names are lower-case. */
  readonly headers: Readonly<Record<string, string | readonly string[] | undefined>>;
  readonly body: Buffer;
}

/** Sends requests to a decision point; rejects if no complete reply came (PA-065). */
export interface PdpClient {
  post(request: PdpRequest): Promise<PdpReply>;
  close(): void;
}

/** TLS settings towards a decision point, as PEM texts. */
export interface PdpTlsOptions {
  readonly ca?: string;
  readonly cert?: string;
  readonly key?: string;
}

export interface PdpClientOptions {
  readonly keepAliveMs: number;
  readonly verifyCertificate: boolean;
  readonly tls?: PdpTlsOptions | undefined;
  readonly setTimer: SetTimer;
}

/** PA-061. */
const maxIdleConnections = 10;
/** PingAuthorize echoes the request, so the limit grows with the request. */
const minReplyLimit = 64 * 1024 * 1024;

/**
 * Creates an HTTP/1.1 keep-alive client for one decision point. It does not follow redirects, so the secret is not sent
 * to another host (PA-209).
 */
export function createPdpClient(service: ServiceUrl, options: PdpClientOptions): PdpClient {
  const kept = { keepAlive: true, maxFreeSockets: maxIdleConnections, timeout: options.keepAliveMs };
  const host = service.host.replace(/^\[(.*)\]$/u, "$1");
  const agent = service.isHttps
    ? new HttpsAgent({
        ...kept,
        ...options.tls,
        rejectUnauthorized: options.verifyCertificate,
        servername: isIP(host) === 0 ? host : "",
      })
    : new nodeHttp.Agent(kept);

  let isClosed = false;
  agent.on("free", (socket: Socket) => {
    if (isClosed) socket.destroy();
  });

  function open(request: PdpRequest): ClientRequest {
    const { path, headers, method = "POST" } = request;
    const target = { host, port: service.port, path, method, headers: { ...headers } };
    return agent instanceof HttpsAgent ? httpsRequest({ ...target, agent }) : nodeHttp.request({ ...target, agent });
  }

  /** The other idle connections are at least as old as the stale one. */
  function dropIdle(): void {
    for (const sockets of Object.values(agent.freeSockets)) for (const socket of sockets ?? []) socket.destroy();
  }

  function post(request: PdpRequest): Promise<PdpReply> {
    const { promise, resolve, reject } = Promise.withResolvers<PdpReply>();
    let current: ClientRequest | undefined;
    let isSettled = false;
    const stopTimer = options.setTimer(request.timeoutMs, () => {
      fail(new Error(`no answer within ${request.timeoutMs} ms`));
    });
    const onAbort = (): void => fail(abortError(request.signal));
    request.signal?.addEventListener("abort", onAbort);

    function settle(): boolean {
      if (isSettled) return false;
      isSettled = true;
      stopTimer();
      request.signal?.removeEventListener("abort", onAbort);
      return true;
    }

    function fail(error: Error): void {
      if (!settle()) return;
      current?.destroy();
      reject(error);
    }

    function send(isSecond: boolean): void {
      const outgoing = open(request);
      current = outgoing;
      let bytesBefore = 0;
      outgoing.on("socket", (socket) => {
        bytesBefore = socket.bytesRead;
      });
      outgoing.on("error", (error) => {
        const isStale = outgoing.reusedSocket && (outgoing.socket?.bytesRead ?? 0) === bytesBefore;
        if (!isStale || isSecond || isSettled) {
          fail(error);
          return;
        }
        // The server closed an idle connection just as it was reused: retry once on a new one (PX-11).
        dropIdle();
        send(true);
      });
      outgoing.on("response", (incoming) => {
        collect(incoming, Math.max(minReplyLimit, 2 * request.body.length)).then((reply) => {
          if (settle()) resolve(reply);
        }, fail);
      });
      outgoing.end(request.body);
    }

    if (request.signal?.aborted === true) fail(abortError(request.signal));
    else send(false);
    return promise;
  }

  return {
    post,
    close: () => {
      isClosed = true;
      dropIdle();
    },
  };
}

async function collect(incoming: IncomingMessage, limit: number): Promise<PdpReply> {
  const chunks: Buffer[] = [];
  let length = 0;
  for await (const chunk of incoming as AsyncIterable<Buffer>) {
    length += chunk.length;
    if (length > limit) throw new Error(`the reply is longer than ${limit} bytes`);
    chunks.push(chunk);
  }
  return { status: incoming.statusCode ?? 0, headers: incoming.headers, body: Buffer.concat(chunks) };
}

/** The error for an aborted signal: its reason, if that is an error. */
export function abortError(signal: AbortSignal | undefined): Error {
  const reason: unknown = signal?.reason;
  return reason instanceof Error ? reason : new DOMException("the caller disconnected", "AbortError");
}
