import { lstatSync, renameSync, rmSync, statSync } from "node:fs";
import { connect, createServer, type Server, type Socket } from "node:net";
import { dirname } from "node:path";
import { createFrameReader } from "./frames.ts";
import type { PluginServer, ServerLog } from "./plugin-server.ts";
import { formatReply, formatServerPid, parseCall } from "./rpc.ts";

/** Where to listen, and for whom. */
export interface UnixListenerOptions {
  readonly path: string;
  readonly server: PluginServer;
  readonly pid: number;
  readonly log: ServerLog;
  /** Monotonic milliseconds. */
  readonly now: () => number;
}

/** A socket that is being listened on. */
export interface UnixListener {
  /** Whether the socket in its place is another process's by now. */
  readonly isReplaced: () => boolean;
  /** How many connections are open. */
  readonly connections: () => number;
  /** Lets the socket go and ends every connection. */
  close(): Promise<void>;
}

/** A problem with the socket that whoever started the process can solve; the message says how. */
export class SocketError extends Error {
  override readonly name = "SocketProblem";
}

const checkEveryMs = 100;

/** Longest path that the kernel takes: 108 bytes on Linux, 104 elsewhere, the closing zero included. */
const maxPathBytes = process.platform === "linux" ? 107 : 103;

/**
 * Listens on a Unix socket. The socket is made beside its place and moved there, so that a stale one is replaced, and a
 * new process takes over from an old one without a moment in which nobody listens: when Kong reloads, both live for a while.
 */
export async function listenOnSocket({ path, server, pid, log, now }: UnixListenerOptions): Promise<UnixListener> {
  const place = `${path}.${pid}`;
  await checkSocketPath(path, place, log);
  const sockets = new Set<Socket>();
  const listener = createServer((socket) => {
    sockets.add(socket);
    socket.on("close", () => sockets.delete(socket));
    serve(socket, { server, pid, log, path, hasSuccessor });
  });
  await listening(listener, place);
  try {
    renameSync(place, path);
  } catch (error) {
    listener.close();
    throw toSocketError(path, error);
  }
  const own = fingerprintOf(path);
  let isSucceeded = false;
  let lookedAt = now();
  listener.on("error", (error) => log.error("socket failed", { error: error.message }));
  const isReplaced = (): boolean => fingerprintOf(path) !== own;
  /** Whether another process listens in our place; the file system is looked at some times a second. */
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
      // Another process may have taken the place; then it is not ours to clear.
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
  /** Whether new connections go to another process by now. */
  readonly hasSuccessor: () => boolean;
}

/** Serves one connection. Kong sends a call, waits for its reply, and may then use another connection for the next. */
function serve(socket: Socket, { server, pid, log, path, hasSuccessor }: ConnectionOptions): void {
  const reader = createFrameReader();
  /** Ends what the call began that is not answered yet. */
  let abandon: (() => void) | undefined;
  let isIntroduced = false;
  let successor: Socket | undefined;

  function take(frame: Uint8Array): void {
    const call = parseCall(frame);
    // With two processes behind one of Kong's pools, steps would go to the wrong one. So whatever is not about an event
    // that is under way here is handed on, as it is, and the answer back.
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
      // The two sides are out of step; Kong makes a new connection for its next call.
      log.error("connection closed: not understood", { error: error instanceof Error ? error.message : "" });
      socket.destroy();
    }
  });
  // Kong drops connections whenever it likes; an unhandled error would end the process (PX-01).
  socket.on("error", () => socket.destroy());
  socket.on("close", () => {
    abandon?.();
    abandon = undefined;
    successor?.destroy();
  });
}

/** A connection to whoever listens now; what comes back goes to Kong. Without it Kong has to make a new one. */
function connectToSuccessor(path: string, kong: Socket): Socket {
  const successor = connect(path);
  successor.on("data", (chunk) => kong.write(chunk));
  successor.on("error", () => successor.destroy());
  successor.on("close", () => kong.destroy());
  return successor;
}

/** Looks at what is in the way before anything is done; throws what the operator has to know. */
async function checkSocketPath(path: string, place: string, log: ServerLog): Promise<void> {
  if (Buffer.byteLength(place) > maxPathBytes) {
    throw new SocketError(
      `${path} is too long for a socket: at most ${maxPathBytes - (Buffer.byteLength(place) - Buffer.byteLength(path))} bytes`,
    );
  }
  let found;
  try {
    // Binding says "permission denied" for a folder that is not there; asking first gives the true reason.
    statSync(dirname(path));
    found = lstatSync(path, { throwIfNoEntry: false });
  } catch (error) {
    throw toSocketError(path, error);
  }
  if (found === undefined) return;
  if (!found.isSocket()) {
    throw new SocketError(`${path} is no socket; give --socket a path where nothing else is`);
  }
  if (await hasListener(path)) log.warn("taking the socket over from another process", { socket: path });
  else log.warn("replacing a stale socket", { socket: path });
}

/** Whether somebody listens on a socket. */
function hasListener(path: string): Promise<boolean> {
  const { promise, resolve } = Promise.withResolvers<boolean>();
  const probe = connect(path);
  probe.on("connect", () => {
    probe.destroy();
    resolve(true);
  });
  probe.on("error", () => resolve(false));
  return promise;
}

function listening(listener: Server, place: string): Promise<void> {
  const { promise, resolve, reject } = Promise.withResolvers<void>();
  const failed = (error: Error): void => reject(toSocketError(place, error));
  listener.once("error", failed);
  listener.listen(place, () => {
    listener.off("error", failed);
    resolve();
  });
  return promise;
}

/** Tells one socket from another in the same place; the number alone may be given to a later file again. */
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
  const words: Readonly<Record<string, string>> = {
    ENOENT: `${folder} does not exist; make it, or give --socket another path`,
    ENOTDIR: `${folder} is no folder; give --socket another path`,
    EACCES: `${folder} may not be written by this user; change its owner, or give --socket another path`,
    EPERM: `${path} belongs to another user; remove it, or give --socket another path`,
    EROFS: `${folder} is on a read-only file system; give --socket another path`,
  };
  const code = codeOf(error);
  return new SocketError(words[code] ?? `cannot listen on ${path}: ${error instanceof Error ? error.message : code}`, {
    cause: error,
  });
}

function codeOf(error: unknown): string {
  const code: unknown = error instanceof Error ? Reflect.get(error, "code") : undefined;
  return typeof code === "string" ? code : "";
}
