import { Socket } from "node:net";

const unread = Symbol("unread head");
const heldHead = Symbol("held head");
const nothing = Buffer.alloc(0);
const headEnd = Buffer.from("\r\n\r\n");
/** Longest head of an interim response. */
const maxHeadBytes = 16 * 1024;

/** Beyond this length copying a body costs more than a gathered write. */
const copiedUpTo = 16 * 1024;

interface UpstreamSocket extends Socket {
  /** What has been read of a response whose first line is not complete; undefined while its body is read. */
  [unread]?: Buffer | undefined;
  /** A request's head that waits for its body; Latin-1. */
  [heldHead]?: string | undefined;
}

/**
 * Prepares a connection for undici. It skips `100 Continue` and other interim responses, which a server may send unasked
 * (RFC 9110, section 15.2); undici takes a 100 for an error. It sends head and body of a short request in one write; a
 * gathered write of both costs more. Needed by bench load: "150 B call, logs at warn". All connections share the two
 * functions, because there may be thousands. Needed by bench bridge: "parked call over HTTP".
 */
export function prepareUpstreamSocket(socket: Socket): void {
  socket.write = writeRequest;
  socket.read = readResponse;
}

/** A request begins with its head, a string; parts of a body are buffers, or begin with a line break. */
function writeRequest(this: UpstreamSocket, chunk: unknown, encoding?: unknown, done?: unknown): boolean {
  if (typeof chunk === "string" && !chunk.startsWith("\r")) {
    this[unread] = nothing;
    // Corked: its body follows at once.
    if (this.writableCorked > 0) {
      this[heldHead] = chunk;
      return true;
    }
  }
  const head = this[heldHead];
  if (head !== undefined) {
    this[heldHead] = undefined;
    if (Buffer.isBuffer(chunk) && chunk.length <= copiedUpTo) {
      // It is the whole request: corked, it would be queued first.
      this.uncork();
      return Socket.prototype.write.call(this, head + chunk.toString("latin1"), "latin1");
    }
    Socket.prototype.write.call(this, head, "latin1");
  }
  // As the caller called it, whichever of the overloads that was.
  return Socket.prototype.write.call(this, chunk as string, encoding as BufferEncoding, done as () => void);
}

function readResponse(this: UpstreamSocket, size?: number): unknown {
  const chunk: unknown = Socket.prototype.read.call(this, size);
  const before = this[unread];
  if (before === undefined || !Buffer.isBuffer(chunk)) return chunk;
  if (before.length === 0 && beginsFinal(chunk)) {
    this[unread] = undefined;
    return chunk;
  }
  const { rest, isFinal } = withoutInterim(before.length === 0 ? chunk : Buffer.concat([before, chunk]));
  if (isFinal || rest.length > maxHeadBytes) {
    this[unread] = undefined;
    return rest;
  }
  this[unread] = rest;
  return null;
}

/** Whether the status line at the beginning is there and not that of an interim response, as of nearly all responses. */
function beginsFinal(bytes: Buffer): boolean {
  return bytes.length >= statusLength && bytes[statusAt] !== digitOne;
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

const statusAt = "HTTP/1.1 ".length;
const statusLength = "HTTP/1.1 100".length;
const digitOne = 0x31;
