import { type ClientRequest, Agent as HttpAgent, request as httpRequest, type IncomingMessage } from "node:http";
import { Agent as HttpsAgent, request as httpsRequest } from "node:https";
import { isIP, type Socket } from "node:net";

import type { SetTimer } from "../../core/exchange.ts";
import type { PdpClient, PdpReply, PdpRequest, PdpTlsOptions } from "../sideband/contract.ts";
import type { ServiceUrl } from "./service-url.ts";

/** What a client is made of. */
export interface PdpClientOptions {
  readonly keepAliveMs: number;
  readonly verifyCertificate: boolean;
  readonly tls?: PdpTlsOptions | undefined;
  readonly setTimer: SetTimer;
}

/** Idle connections kept for later calls (PA-061). */
const maxIdleConnections = 10;
/** An answer repeats what it was asked about, so the limit grows with the question. */
const leastAnswerLimit = 64 * 1024 * 1024;

/**
 * The HTTP/1.1 client for one decision point, with kept connections. Redirects are not followed, so that the secret
 * goes nowhere else (PA-209).
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
    : new HttpAgent(kept);

  let isClosed = false;
  agent.on("free", (socket: Socket) => {
    if (isClosed) socket.destroy();
  });

  function open(request: PdpRequest): ClientRequest {
    const { path, headers, method = "POST" } = request;
    const facts = { host, port: service.port, path, method, headers: { ...headers } };
    return agent instanceof HttpsAgent ? httpsRequest({ ...facts, agent }) : httpRequest({ ...facts, agent });
  }

  /** Idle connections are older than the one that just turned out to be closed, or as old. */
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
        // The other side closed a kept connection just when it was used again: nobody's fault (PX-11).
        dropIdle();
        send(true);
      });
      outgoing.on("response", (incoming) => {
        collect(incoming, Math.max(leastAnswerLimit, 2 * request.body.length)).then((reply) => {
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
    if (length > limit) throw new Error(`the answer is longer than ${limit} bytes`);
    chunks.push(chunk);
  }
  return { status: incoming.statusCode ?? 0, headers: incoming.headers, body: Buffer.concat(chunks) };
}

/** What to throw when a signal was aborted: its reason, if that is an error. */
export function abortError(signal: AbortSignal | undefined): Error {
  const reason: unknown = signal?.reason;
  return reason instanceof Error ? reason : new DOMException("nobody waits for the answer", "AbortError");
}
