import { chmodSync, statSync, unlinkSync, watch } from "node:fs";
import type { OutgoingHttpHeader, OutgoingHttpHeaders, RequestListener, Server, ServerResponse } from "node:http";
import { createServer as createHttpsServer, type Server as TlsServer } from "node:https";
import { Server as NetServer, type Socket } from "node:net";
import { dirname } from "node:path";
import { setImmediate as nextTurn, setTimeout as delay } from "node:timers/promises";
import type { TLSSocket } from "node:tls";
import { type ErrorCode, GatewayError } from "../../errors.ts";
import { plainAddress } from "../../lib/addresses.ts";
import { SyncBodyRequest } from "../../transports/http/request-body.ts";
import { nodeHttp } from "../../lib/lazy-modules.ts";
import { readPem } from "../../lib/keys/pem.ts";
import { hasListener, socketPathProblem } from "../../lib/socket-path.ts";
import { thrownMessage } from "../../lib/thrown-message.ts";

/** Where and how to listen. */
export interface HttpListenOptions {
  readonly host: string;
  readonly port: number;
  /** How users choose another port, for the message about one that is in use. */
  readonly portSetting: string;
  readonly unixSocket?: string | undefined;
  /** A socket that listens there already, of the process that started this one. It outlives this process. */
  readonly passedSocket?: number | undefined;
  /** Whether other workers of this gateway listen there too. */
  readonly isShared?: boolean;
  /** Whether other gateways answer what a load balancer cannot send here any more. */
  readonly hasPeers?: boolean;
  /** File mode of the Unix socket, in octal digits. */
  readonly socketMode?: string;
  readonly tls?:
    | {
        readonly certFile: string;
        readonly keyFile: string;
        /** Authorities whose client certificates are accepted. */
        readonly caFile?: string | undefined;
        /** Whether clients without a certificate may connect; then its verification must be checked later. */
        readonly clientCertificate?: "required" | "optional" | undefined;
      }
    | undefined;
  readonly headerBytes: number;
  /** How long a client may take to send a request, from its first byte to the last of its body. */
  readonly bodyMs: number;
  /** Called for requests that never reach a handler: not HTTP, too large, too slow, or without a TLS handshake. */
  readonly onRefused?: (refused: UnreadableRequest) => void;
  /** Called when a new certificate was loaded, or with the problem. */
  readonly onCertificate?: (problem: string | undefined) => void;
}

/** A request that never reached a handler. */
export interface UnreadableRequest {
  readonly code: ErrorCode;
  /** The status of the answer; 0 if no answer is possible. */
  readonly status: number;
  readonly reason: string;
  readonly peer: string | undefined;
}

/** A listening server. */
export interface HttpListener {
  /** For display: `http://127.0.0.1:8484`, or the path of the socket. */
  readonly address: string;
  /** Whether connections that arrive after `stop` wait for the next process. */
  readonly outlivesProcess: boolean;
  /** From now on, every response is the last one on its connection; with peers, from the moment new connections are refused. */
  endKeepAlive(): void;
  /**
   * Refuses new connections. Resolves once everything sent before has been read, including the requests that open connections are
   * for; those are waited for no longer than `graceMs`.
   */
  stop(graceMs: number): Promise<void>;
  /** Closes all connections. */
  close(): Promise<void>;
}

/** Longer than the idle timeout of common load balancers (60 s), so that they close connections first. */
const keepAliveTimeout = 75_000;

/** How long a request sent on an open connection may be in transit. */
const lingerMs = 50;

/**
 * The same where others take over: a load balancer sends on idle connections as long as there are any, and only then learns
 * that new ones are refused. One that it chooses while it is being closed fails its request.
 */
const takeOverMs = 1000;

/** How long a new connection may be without a request: a busy load balancer connects some time before it writes. */
const firstRequestMs = 2000;

/** How often connections are checked while waiting for requests on them. */
const pollMs = 10;

/**
 * How long no connection may have come before the socket is closed where others take over, and how long that is waited for. A
 * connection that is established while the socket is being closed is reset, and on a busy machine that takes milliseconds.
 */
const settledMs = 500;
const settlingMs = 3000;

/** How long to wait for a quiet turn. */
const quietMs = 2000;

/**
 * Resolves in a turn of the event loop in which nothing had come: right after the last connection was accepted, and all that
 * was sent has been read. Without the wait, what came with the last turn takes milliseconds, and more comes meanwhile.
 */
async function quietTurn(): Promise<void> {
  const until = performance.now() + quietMs;
  let before: number;
  do {
    // Sleeps first: the scheduler interrupts a process that has just woken up less often, and what comes while it is
    // interrupted is not seen here.
    await delay(1);
    before = performance.nodeTiming.uvMetricsInfo.events;
    await nextTurn();
  } while (performance.nodeTiming.uvMetricsInfo.events !== before && performance.now() < until);
}

/** How long the headers of a request may take. */
const headersMs = 60_000;
/** The maximum delay until a slow request is noticed. */
const checkMs = 5000;

type HeadFields = OutgoingHttpHeaders | OutgoingHttpHeader[];

/** Starts to listen. Problems such as a port in use become one-line errors. */
export async function createHttpListener(options: HttpListenOptions, handler: RequestListener): Promise<HttpListener> {
  const {
    tls,
    unixSocket,
    socketMode = "0600",
    host,
    port,
    isShared = false,
    hasPeers = false,
    passedSocket,
  } = options;
  let isEnding = false;
  let accepted = 0;
  const connections = new Set<AnsweringSocket>();
  const idleMs = hasPeers || passedSocket !== undefined ? takeOverMs : lingerMs;
  class ListenerResponse extends nodeHttp.ServerResponse {
    override writeHead(status: number, text?: string | HeadFields, fields?: HeadFields): this {
      if (isEnding) this.shouldKeepAlive = false;
      return typeof text === "string" ? super.writeHead(status, text, fields) : super.writeHead(status, text ?? fields);
    }
  }
  const common = {
    keepAliveTimeout,
    // Node answers 408 and closes the connection.
    requestTimeout: options.bodyMs,
    headersTimeout: Math.min(headersMs, options.bodyMs),
    connectionsCheckingInterval: Math.min(checkMs, Math.ceil(options.bodyMs / 4)),
    maxHeaderSize: options.headerBytes,
    // The handler refuses requests that Node would refuse silently.
    requireHostHeader: false,
    IncomingMessage: SyncBodyRequest,
    ServerResponse: ListenerResponse,
  };
  const server: Server | TlsServer =
    tls === undefined
      ? nodeHttp.createServer(common, handler)
      : createHttpsServer({ ...common, ...readCertificate(tls) }, handler);
  server.on(tls === undefined ? "connection" : "secureConnection", (socket: AnsweringSocket) => {
    accepted++;
    connections.add(socket);
    socket.once("close", () => connections.delete(socket));
  });
  server.on("clientError", (error: NodeJS.ErrnoException, socket) => {
    // Both kinds of server have sockets of the network here.
    refuseUnreadable(error, socket as AnsweringSocket, options.onRefused);
  });
  // Expectations that are not known may be ignored (RFC 9110 section 10.1.1); Node would answer 417 itself.
  server.on("checkExpectation", handler);
  // Node would close the connection.
  server.on("connect", (_request, socket) => {
    const refused = {
      code: "method_not_allowed",
      status: 405,
      reason: "this is not a forward proxy; CONNECT is not supported",
    } as const;
    refuseSocket(socket as AnsweringSocket, refused, options.onRefused);
  });
  if (unixSocket !== undefined && !isShared && passedSocket === undefined) await removeStaleSocket(unixSocket);
  await new Promise<void>((resolve, reject) => {
    server.once("error", (error: NodeJS.ErrnoException) => {
      reject(listenError(error, options));
    });
    if (passedSocket !== undefined) {
      server.listen({ fd: passedSocket }, () => {
        server.removeAllListeners("error");
        const problem = passedSocketProblem(server, options);
        if (problem === undefined) resolve();
        else server.close(() => reject(new GatewayError("config_invalid", problem)));
      });
      return;
    }
    const place = unixSocket === undefined ? { host, port, backlog } : { path: unixSocket };
    const reusePort = isShared && unixSocket === undefined && reusesPorts.has(process.platform);
    // Without SO_REUSEPORT, the process that started the workers accepts and hands connections over (`node:cluster`).
    server.listen({ ...place, reusePort, exclusive: !isShared || reusePort }, () => {
      server.removeAllListeners("error");
      resolve();
    });
  });
  // A named pipe of Windows has no mode.
  if (unixSocket !== undefined && passedSocket === undefined && process.platform !== "win32")
    chmodSync(unixSocket, Number.parseInt(socketMode, 8));
  const stopWatching =
    tls === undefined ? undefined : watchCertificate(server as TlsServer, tls, options.onCertificate);
  return {
    address: addressOf(server, options),
    outlivesProcess: passedSocket !== undefined,
    endKeepAlive: () => {
      // A load balancer whose connections are ended connects for each request, also while the socket is being closed.
      isEnding = !hasPeers;
    },
    stop: async (graceMs) => {
      stopWatching?.();
      if (hasPeers) await untilSettled(() => accepted, Math.min(graceMs, settlingMs));
      // A connection that is not accepted yet breaks under its request.
      await quietTurn();
      // Not the method of HTTP servers, which closes connections under requests that are on their way.
      NetServer.prototype.close.call(server);
      isEnding = true;
      await delay(lingerMs);
      await untilTaken(connections, Math.min(graceMs, idleMs), Math.min(graceMs, firstRequestMs));
      await quietTurn();
      server.closeIdleConnections();
    },
    close: async () => {
      stopWatching?.();
      const closed = new Promise<void>((resolve) => {
        server.close(() => {
          resolve();
        });
      });
      server.closeAllConnections();
      await closed;
    },
  };
}

/** A socket with Node's own note of the response that is being written on it. */
interface AnsweringSocket extends Socket {
  readonly _httpMessage?: ServerResponse | null;
  /** Only of TLS: why the client's certificate is not trusted. */
  readonly authorizationError?: TLSSocket["authorizationError"] | null;
}

/** Waits until a count has been stable for a while, up to a limit. */
async function untilSettled(count: () => number, limitMs: number): Promise<void> {
  const until = performance.now() + limitMs;
  let last = count();
  let since = performance.now();
  while (performance.now() < Math.min(until, since + settledMs)) {
    await delay(pollMs);
    if (count() === last) continue;
    last = count();
    since = performance.now();
  }
}

/**
 * Waits until every open connection has received its last request: new ones their first, and idle ones
 * one more, whose answer closes them.
 */
async function untilTaken(connections: ReadonlySet<AnsweringSocket>, idleMs: number, firstMs: number): Promise<void> {
  const started = performance.now();
  const isAwaited = ({ _httpMessage, bytesRead }: AnsweringSocket): boolean =>
    (_httpMessage ?? undefined) === undefined && performance.now() - started < (bytesRead === 0 ? firstMs : idleMs);
  while ([...connections].some(isAwaited)) await delay(pollMs);
}

type Refused = Omit<UnreadableRequest, "peer">;

const unreadable: Readonly<Record<string, Omit<Refused, "reason">>> = {
  HPE_HEADER_OVERFLOW: { status: 431, code: "too_large" },
  HPE_CHUNK_EXTENSIONS_OVERFLOW: { status: 413, code: "too_large" },
  ERR_HTTP_REQUEST_TIMEOUT: { status: 408, code: "bad_request" },
};

/** Answers as Node does without a listener, and reports the refusal. A broken connection is not a request. */
function refuseUnreadable(
  error: NodeJS.ErrnoException,
  socket: AnsweringSocket,
  told: HttpListenOptions["onRefused"],
): void {
  const reason = handshakeProblem(error, socket);
  if (reason !== undefined) {
    told?.({ code: "tls_failed", status: 0, reason, peer: plainAddress(socket.remoteAddress) });
    socket.destroy();
    return;
  }
  if (!socket.writable || error.code === "ECONNRESET") {
    socket.destroy();
    return;
  }
  const facts = unreadable[error.code ?? ""] ?? { status: 400, code: "bad_request" };
  refuseSocket(socket, { ...facts, reason: error.message }, told);
}

/** Answers on a connection that has no response, and closes it. */
function refuseSocket(socket: AnsweringSocket, refused: Refused, told: HttpListenOptions["onRefused"]): void {
  told?.({ ...refused, peer: plainAddress(socket.remoteAddress) });
  // Bytes in the middle of a response would corrupt it.
  if (socket._httpMessage?.headersSent !== true)
    socket.write(`HTTP/1.1 ${refused.status} ${nodeHttp.STATUS_CODES[refused.status]}\r\nConnection: close\r\n\r\n`);
  socket.destroySoon();
}

/** Why a TLS handshake failed; undefined if it did not, or if the client merely disconnected. */
function handshakeProblem(error: NodeJS.ErrnoException, socket: AnsweringSocket): string | undefined {
  // Node closes a connection with such a certificate as if the client had disconnected.
  const untrusted = socket.authorizationError ?? undefined;
  if (error.code === "ECONNRESET" && untrusted !== undefined)
    return `the client's certificate is not from a CA in \`tls.caFile\` (${String(untrusted)})`;
  if (error.code === "ERR_SSL_HTTP_REQUEST") return "the client speaks plain HTTP; it must use https";
  if (error.code === "ERR_SSL_PEER_DID_NOT_RETURN_A_CERTIFICATE")
    return "the client has no certificate, which `tls.clientCertificate` requires";
  if (!/^ERR_(?:SSL|TLS)_/u.test(error.code ?? "")) return undefined;
  const detail: unknown = Reflect.get(error, "reason");
  return typeof detail === "string" ? detail : error.message;
}

/** Where the kernel divides the connections of a port among processes; why not `node:cluster`: decision 14. */
const reusesPorts: ReadonlySet<NodeJS.Platform> = new Set(["linux", "freebsd"]);

/** Connections that may wait to be accepted; clients beyond that retry only after a second. */
const backlog = 4096;

type Tls = NonNullable<HttpListenOptions["tls"]>;

function readCertificate({ certFile, keyFile, caFile, clientCertificate = "required" }: Tls) {
  const rejectUnauthorized = clientCertificate === "required";
  return {
    cert: readPem(certFile),
    key: readPem(keyFile),
    ...(caFile === undefined ? {} : { ca: readPem(caFile), requestCert: true, rejectUnauthorized }),
  };
}

/** Reloads the certificate when its folder changes: editors and Kubernetes replace files by renaming. */
function watchCertificate(server: TlsServer, tls: Tls, told: HttpListenOptions["onCertificate"]): () => void {
  const textOf = ({ cert, ca = "" }: { readonly cert: Buffer; readonly ca?: Buffer | string }): string =>
    `${cert.toString()}${ca.toString()}`;
  let last = textOf(readCertificate(tls));
  const check = (): void => {
    try {
      const next = readCertificate(tls);
      if (textOf(next) === last) return;
      server.setSecureContext(next);
      last = textOf(next);
      told?.(undefined);
    } catch (error) {
      // Half-written files are normal during a replacement; the old certificate stays in use.
      told?.(thrownMessage(error));
    }
  };
  const files = [tls.certFile, tls.keyFile, ...(tls.caFile === undefined ? [] : [tls.caFile])];
  const watchers = [...new Set(files.map((file) => dirname(file)))].map((folder) => watch(folder, check));
  for (const watcher of watchers) {
    watcher.unref();
    // Without a listener, a folder that can no longer be watched would end this process.
    watcher.on("error", (error) => told?.(thrownMessage(error)));
  }
  return () => {
    for (const watcher of watchers) watcher.close();
  };
}

/** Removes a socket file that nobody listens on any more. */
async function removeStaleSocket(path: string): Promise<void> {
  const problem = socketPathProblem(path);
  if (problem !== undefined) throw new GatewayError("config_invalid", `listen.unixSocket: ${problem}`);
  // Windows removes a pipe with its process.
  const stats = process.platform === "win32" ? undefined : statSync(path, { throwIfNoEntry: false });
  if (stats === undefined) return;
  if (!stats.isSocket())
    throw new GatewayError(
      "config_invalid",
      `${path} exists and is not a socket; delete it, or choose another \`listen.unixSocket\``,
    );
  if (await hasListener(path))
    throw new GatewayError(
      "config_invalid",
      `another process listens on ${path}; choose another \`listen.unixSocket\`, or stop that process`,
    );
  unlinkSync(path);
}

function addressOf(server: Server | TlsServer, options: HttpListenOptions): string {
  const address = server.address();
  if (address === null || typeof address === "string") return options.unixSocket ?? "";
  const host = address.family === "IPv6" ? `[${address.address}]` : address.address;
  return `${options.tls === undefined ? "http" : "https"}://${host}:${address.port}`;
}

/** What is checked and shown is the configured address, so a passed socket must be there and nowhere else. */
function passedSocketProblem(
  server: Server | TlsServer,
  { unixSocket, host, port }: HttpListenOptions,
): string | undefined {
  const address = server.address();
  if (address === null || typeof address === "string") {
    return unixSocket === undefined
      ? `the socket from systemd is not a TCP socket, but \`listen\` is ${host}:${port}; set \`listen.unixSocket\``
      : undefined;
  }
  const configured = host === "localhost" ? ["127.0.0.1", "::1"] : [host];
  if (unixSocket === undefined && address.port === port && configured.includes(address.address)) return undefined;
  const there = unixSocket ?? `${host}:${port}`;
  const passed = `${address.address}:${address.port}`;
  return `systemd listens on ${passed} (ListenStream=), but \`listen\` is ${there}; make them the same`;
}

function listenError(error: NodeJS.ErrnoException, options: HttpListenOptions): GatewayError {
  const { host, port, unixSocket, portSetting } = options;
  const place = unixSocket ?? `${host}:${port}`;
  const reasons: Record<string, string> = {
    EADDRINUSE: `${place} is in use by another process; choose another port with ${portSetting}, or stop that process`,
    EACCES: `this user may not listen on ${place}; ports below 1024 need extra privileges`,
    EADDRNOTAVAIL: `${host} is not an address of this machine`,
    ENOTFOUND: `unknown host ${host}`,
  };
  return new GatewayError(
    "config_invalid",
    reasons[error.code ?? ""] ?? `cannot listen on ${place}: ${error.message}`,
    {
      cause: error,
    },
  );
}
