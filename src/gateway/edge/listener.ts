import { chmodSync, statSync, unlinkSync, watch } from "node:fs";
import {
  createServer as createHttpServer,
  type OutgoingHttpHeader,
  type OutgoingHttpHeaders,
  type RequestListener,
  type Server,
  ServerResponse,
} from "node:http";
import { createServer as createHttpsServer, type Server as TlsServer } from "node:https";
import { connect, type Socket } from "node:net";
import { dirname } from "node:path";
import { GatewayError } from "../../errors.ts";
import { plainAddress } from "../../lib/addresses.ts";
import { SyncBodyRequest } from "../../transports/http/request-body.ts";
import { readPem } from "../../lib/keys/pem.ts";
import { socketPathProblem } from "../../lib/socket-path.ts";

/** Where and how to listen. */
export interface HttpListenOptions {
  readonly host: string;
  readonly port: number;
  /** How users choose another port, for the message about one that is in use. */
  readonly portSetting: string;
  readonly unixSocket?: string | undefined;
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
  /** Called when Node refuses a request that is not HTTP, too large or too slow. */
  readonly onRefused?: (refused: UnreadableRequest) => void;
  /** Called when a new certificate was loaded, or with the problem. */
  readonly onCertificate?: (problem: string | undefined) => void;
}

/** A request that never reached a handler. */
export interface UnreadableRequest {
  readonly status: number;
  readonly reason: string;
  readonly peer: string | undefined;
}

/** A listening server. */
export interface HttpListener {
  /** For display: `http://127.0.0.1:8484`, or the path of the socket. */
  readonly address: string;
  /** From now on, every response is the last one on its connection. */
  endKeepAlive(): void;
  /** Refuses new connections. */
  stop(): void;
  /** Closes all connections. */
  close(): Promise<void>;
}

/** Longer than the idle timeout of common load balancers (60 s), so that they close connections first. */
const keepAliveTimeout = 75_000;

/** How long the headers of a request may take. */
const headersMs = 60_000;
/** How late a request that takes too long is noticed at most. */
const checkMs = 5000;

type HeadFields = OutgoingHttpHeaders | OutgoingHttpHeader[];

/** Starts to listen. Problems such as a port in use become one-line errors. */
export async function createHttpListener(options: HttpListenOptions, handler: RequestListener): Promise<HttpListener> {
  const { tls, unixSocket, socketMode = "0600", host, port } = options;
  let isEnding = false;
  class ListenerResponse extends ServerResponse {
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
    IncomingMessage: SyncBodyRequest,
    ServerResponse: ListenerResponse,
  };
  const server: Server | TlsServer =
    tls === undefined
      ? createHttpServer(common, handler)
      : createHttpsServer({ ...common, ...readCertificate(tls) }, handler);
  server.on("clientError", (error: NodeJS.ErrnoException, socket) => {
    // Both kinds of server have sockets of the network here.
    refuseUnreadable(error, socket as AnsweringSocket, options.onRefused);
  });
  if (unixSocket !== undefined) await removeStaleSocket(unixSocket);
  await new Promise<void>((resolve, reject) => {
    server.once("error", (error: NodeJS.ErrnoException) => {
      reject(listenError(error, options));
    });
    server.listen(unixSocket === undefined ? { host, port, backlog } : { path: unixSocket }, () => {
      server.removeAllListeners("error");
      resolve();
    });
  });
  // A named pipe of Windows has no mode.
  if (unixSocket !== undefined && process.platform !== "win32") chmodSync(unixSocket, Number.parseInt(socketMode, 8));
  const stopWatching =
    tls === undefined ? undefined : watchCertificate(server as TlsServer, tls, options.onCertificate);
  return {
    address: addressOf(server, options),
    endKeepAlive: () => {
      isEnding = true;
    },
    stop: () => {
      stopWatching?.();
      server.close();
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
}

const unreadable: Readonly<Record<string, readonly [status: number, text: string]>> = {
  HPE_HEADER_OVERFLOW: [431, "Request Header Fields Too Large"],
  HPE_CHUNK_EXTENSIONS_OVERFLOW: [413, "Payload Too Large"],
  ERR_HTTP_REQUEST_TIMEOUT: [408, "Request Timeout"],
};

/** Answers as Node does without a listener, and tells what was refused. A connection that broke is no request. */
function refuseUnreadable(
  error: NodeJS.ErrnoException,
  socket: AnsweringSocket,
  told: HttpListenOptions["onRefused"],
): void {
  if (!socket.writable || error.code === "ECONNRESET") {
    socket.destroy();
    return;
  }
  const [status, text] = unreadable[error.code ?? ""] ?? [400, "Bad Request"];
  told?.({ status, reason: error.message, peer: plainAddress(socket.remoteAddress) });
  // Bytes in the middle of a response would corrupt it.
  if (socket._httpMessage?.headersSent !== true)
    socket.write(`HTTP/1.1 ${status} ${text}\r\nConnection: close\r\n\r\n`);
  socket.destroySoon();
}

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
      told?.(error instanceof Error ? error.message : String(error));
    }
  };
  const files = [tls.certFile, tls.keyFile, ...(tls.caFile === undefined ? [] : [tls.caFile])];
  const watchers = [...new Set(files.map((file) => dirname(file)))].map((folder) => watch(folder, check));
  for (const watcher of watchers) watcher.unref();
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
  if (!stats.isSocket()) throw new GatewayError("config_invalid", `${path} exists and is not a socket`);
  const isUsed = await new Promise<boolean>((resolve) => {
    const probe = connect(path);
    probe.once("connect", () => {
      probe.destroy();
      resolve(true);
    });
    probe.once("error", () => {
      resolve(false);
    });
  });
  if (isUsed) throw new GatewayError("config_invalid", `another process listens on ${path}`);
  unlinkSync(path);
}

function addressOf(server: Server | TlsServer, options: HttpListenOptions): string {
  const address = server.address();
  if (address === null || typeof address === "string") return options.unixSocket ?? "";
  const host = address.family === "IPv6" ? `[${address.address}]` : address.address;
  return `${options.tls === undefined ? "http" : "https"}://${host}:${address.port}`;
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
