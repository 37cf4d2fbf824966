import { Socket } from "node:net";

const unread = Symbol("unread head");
const unsent = Symbol("unsent request");
const nothing = Buffer.alloc(0);
const headEnd = Buffer.from("\r\n\r\n");
/** Longest head of an interim response. */
const maxHeadBytes = 16 * 1024;

/** Beyond this length copying a body costs more than a gathered write. */
const copiedUpTo = 16 * 1024;

interface UpstreamSocket extends Socket {
  /** What has been read of a response whose first line is not complete; undefined while its body is read. */
  [unread]?: Buffer | undefined;
  /** A request's head that waits for its body, or the whole request that leaves at the end of this turn; Latin-1. */
  [unsent]?: string | undefined;
}

/** Sockets with a whole request to send in this turn of the event loop. */
let pending: UpstreamSocket[] = [];

/**
 * Prepares a connection for undici. It skips `100 Continue` and other interim responses, which a server may send unasked
 * (RFC 9110, section 15.2); undici takes a 100 for an error. It sends head and body of a short request in one write,
 * together with the other requests of this turn of the event loop: several writes in a row wake the upstream once, and
 * waking a process costs more than a write. Needed by bench load: "150 B call, logs at warn". All connections share the
 * two functions, because there may be thousands. Needed by bench bridge: "parked call over HTTP".
 */
export function prepareUpstreamSocket(socket: Socket): void {
  socket.write = writeRequest;
  socket.read = readResponse;
}

/** A request begins with its head, a string; parts of a body are buffers, or begin with a line break. */
function writeRequest(this: UpstreamSocket, ...args: unknown[]): boolean {
  const [chunk] = args;
  const before = this[unsent];
  this[unsent] = undefined;
  if (typeof chunk === "string" && !chunk.startsWith("\r")) {
    this[unread] = nothing;
    // Corked: its body follows at once.
    if (this.writableCorked > 0) {
      // Answered before it was sent: an upstream may speak first.
      if (before !== undefined) Socket.prototype.write.call(this, before, "latin1");
      this[unsent] = chunk;
      return true;
    }
  } else if (before !== undefined && Buffer.isBuffer(chunk) && chunk.length <= copiedUpTo && this.writableCorked > 0) {
    this[unsent] = before + chunk.toString("latin1");
    if (pending.push(this) === 1) setImmediate(flush);
    return true;
  }
  if (before !== undefined) Socket.prototype.write.call(this, before, "latin1");
  return Socket.prototype.write.apply(this, args as [string]);
}

function flush(): void {
  const sockets = pending;
  pending = [];
  for (const socket of sockets) {
    const request = socket[unsent];
    socket[unsent] = undefined;
    if (request !== undefined && !socket.destroyed) Socket.prototype.write.call(socket, request, "latin1");
  }
}

function readResponse(this: UpstreamSocket, size?: number): unknown {
  const chunk: unknown = Socket.prototype.read.call(this, size);
  const before = this[unread];
  if (before === undefined || !Buffer.isBuffer(chunk)) return chunk;
  const { rest, isFinal } = withoutInterim(before.length === 0 ? chunk : Buffer.concat([before, chunk]));
  if (isFinal || rest.length > maxHeadBytes) {
    this[unread] = undefined;
    return rest;
  }
  this[unread] = rest;
  return null;
}

/** Cuts interim responses off; `isFinal` once what is left begins the response itself. */
function withoutInterim(bytes: Buffer): { readonly rest: Buffer; readonly isFinal: boolean } {
  let rest = bytes;
  for (;;) {
    const line = rest.toString("latin1", 0, statusLength);
    // Not 101: after it the connection speaks another protocol.
    const isInterim = /^HTTP\/1\.[01] 1(?!01)\d\d/u.test(line);
    if (!isInterim) return { rest, isFinal: line.length === statusLength || !/^H?T{0,2}P?[/.01 ]*$/u.test(line) };
    const end = rest.indexOf(headEnd);
    if (end < 0) return { rest, isFinal: false };
    rest = rest.subarray(end + headEnd.length);
  }
}

const statusLength = "HTTP/1.1 100".length;
