import { lstatSync, renameSync, rmSync, statSync } from "node:fs";
import { connect, createServer, type Server, type Socket } from "node:net";
import { dirname } from "node:path";
import { createFrameReader, formatReply, formatServerPid, parseCall } from "./frames.ts";
import type { PluginServer, ServerLog } from "./plugin-server.ts";
import { hasListener, maxSocketPathBytes } from "../lib/socket-path.ts";
import { thrownCode, thrownMessage } from "../lib/thrown-message.ts";

/** Where to listen, and what serves the connections. */
export interface UnixListenerOptions {
  readonly path: string;
  readonly server: PluginServer;
  readonly pid: number;
  readonly log: ServerLog;
  /** Monotonic milliseconds. */
  readonly now: () => number;
}

/** A listening socket. */
export interface UnixListener {
  /** Whether another process has replaced the socket. */
  readonly isReplaced: () => boolean;
  /** The number of open connections. */
  readonly connections: () => number;
  /** Removes the socket and closes every connection. */
  close(): Promise<void>;
}

/** A problem with the socket that the operator can solve; the message says how. */
export class SocketError extends Error {
  override readonly name = "SocketError";
}

const checkEveryMs = 100;

const maxPathBytes = maxSocketPathBytes();

/**
 * Listens on a Unix socket. The socket is created beside its path and renamed, which replaces a stale one, and lets a
 * new process take over without a gap: during a reload of Kong both processes live for a while.
 */
export async function listenOnSocket({ path, server, pid, log, now }: UnixListenerOptions): Promise<UnixListener> {
  const temporaryPath = `${path}.${pid}`;
  await checkSocketPath(path, temporaryPath, log);
  const sockets = new Set<Socket>();
  const listener = createServer((socket) => {
    sockets.add(socket);
    socket.on("close", () => sockets.delete(socket));
    serve(socket, { server, pid, log, path, hasSuccessor });
  });
  await listening(listener, temporaryPath);
  try {
    renameSync(temporaryPath, path);
  } catch (error) {
    listener.close();
    throw toSocketError(path, error);
  }
  const own = fingerprintOf(path);
  let isSucceeded = false;
  let lookedAt = now();
  listener.on("error", (error) => log.error("socket failed", { error: error.message }));
  const isReplaced = (): boolean => fingerprintOf(path) !== own;
  /** Whether another process has taken the path; checks the file system at most ten times a second. */
  function hasSuccessor(): boolean {
    if (now() - lookedAt >= checkEveryMs) {
      lookedAt = now();
      isSucceeded = fingerprintOf(path) !== undefined && isReplaced();
    }
    return isSucceeded;
  }
  return {
    isReplaced,
    connections: () => sockets.size,
    close: async () => {
      // A successor keeps its socket.
      if (!isReplaced()) rmSync(path, { force: true });
      const { promise, resolve } = Promise.withResolvers<void>();
      listener.close(() => resolve());
      for (const socket of sockets) socket.destroy();
      await promise;
    },
  };
}

interface ConnectionOptions {
  readonly server: PluginServer;
  readonly pid: number;
  readonly log: ServerLog;
  readonly path: string;
  /** Whether another process accepts new connections now. */
  readonly hasSuccessor: () => boolean;
}

/** Serves one connection. Kong sends a call, waits for the reply, and may use another connection for the next call. */
function serve(socket: Socket, { server, pid, log, path, hasSuccessor }: ConnectionOptions): void {
  const reader = createFrameReader();
  /** Abandons the call that is not answered yet. */
  let abandon: (() => void) | undefined;
  let isIntroduced = false;
  let successor: Socket | undefined;

  function take(frame: Uint8Array): void {
    const call = parseCall(frame);
    // Kong's connection pool now reaches two processes. Calls that belong to no event of this one are forwarded to the
    // successor, and its replies back.
    if (hasSuccessor() && !server.ownsEvent(call)) {
      successor ??= connectToSuccessor(path, socket);
      successor.write(frame);
      return;
    }
    let isAnswered = false;
    const end = server.handle(call, (outcome) => {
      isAnswered = true;
      abandon = undefined;
      if (socket.destroyed) return;
      const reply = formatReply(call.id, outcome);
      socket.write(isIntroduced ? reply : Buffer.concat([formatServerPid(pid), reply]));
      isIntroduced = true;
    });
    if (!isAnswered) abandon = end;
  }

  socket.on("data", (chunk) => {
    try {
      for (const frame of reader.push(chunk)) take(frame);
    } catch (error) {
      // The stream is out of sync; Kong opens a new connection for its next call.
      log.error("connection closed: invalid message", { error: thrownMessage(error) });
      socket.destroy();
    }
  });
  // Kong may drop a connection at any time; an unhandled error would end the process (PX-01).
  socket.on("error", () => socket.destroy());
  socket.on("close", () => {
    abandon?.();
    abandon = undefined;
    successor?.destroy();
  });
}

/** Connects to the process that took over; its replies go to Kong. If it fails, Kong has to reconnect. */
function connectToSuccessor(path: string, kong: Socket): Socket {
  const successor = connect(path);
  successor.on("data", (chunk) => kong.write(chunk));
  successor.on("error", () => successor.destroy());
  successor.on("close", () => kong.destroy());
  return successor;
}

/** Checks the path before listening; throws what the operator has to fix. */
async function checkSocketPath(path: string, temporaryPath: string, log: ServerLog): Promise<void> {
  if (Buffer.byteLength(temporaryPath) > maxPathBytes) {
    throw new SocketError(
      `${path} is too long for a socket: at most ${maxPathBytes - (Buffer.byteLength(temporaryPath) - Buffer.byteLength(path))} bytes`,
    );
  }
  let found;
  try {
    // Binding reports "permission denied" for a missing folder; this gives the real reason.
    statSync(dirname(path));
    found = lstatSync(path, { throwIfNoEntry: false });
  } catch (error) {
    throw toSocketError(path, error);
  }
  if (found === undefined) return;
  if (!found.isSocket()) throw new SocketError(`${path} is not a socket; give --socket another path`);
  if (await hasListener(path)) log.warn("taking the socket over from another process", { socket: path });
  else log.warn("replacing a stale socket", { socket: path });
}

function listening(listener: Server, path: string): Promise<void> {
  const { promise, resolve, reject } = Promise.withResolvers<void>();
  const failed = (error: Error): void => reject(toSocketError(path, error));
  listener.once("error", failed);
  listener.listen(path, () => {
    listener.off("error", failed);
    resolve();
  });
  return promise;
}

/** Identifies a socket file; the inode alone may be reused by a later file. */
function fingerprintOf(path: string): string | undefined {
  try {
    const { ino, mtimeMs } = lstatSync(path);
    return `${ino} ${mtimeMs}`;
  } catch {
    return undefined;
  }
}

function toSocketError(path: string, error: unknown): SocketError {
  const folder = dirname(path);
  const texts: Readonly<Record<string, string>> = {
    ENOENT: `${folder} does not exist; create it, or give --socket another path`,
    ENOTDIR: `${folder} is not a folder; give --socket another path`,
    EACCES: `${folder} is not writable by this user; change its owner, or give --socket another path`,
    EPERM: `${path} belongs to another user; remove it, or give --socket another path`,
    EROFS: `${folder} is on a read-only file system; give --socket another path`,
  };
  const text = texts[thrownCode(error) ?? ""] ?? `cannot listen on ${path}: ${thrownMessage(error)}`;
  return new SocketError(text, { cause: error });
}
