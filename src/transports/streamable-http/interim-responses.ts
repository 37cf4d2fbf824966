import { Socket } from "node:net";

const unread = Symbol("unread head");
const nothing = Buffer.alloc(0);
const headEnd = Buffer.from("\r\n\r\n");
/** Longest head of an interim response. */
const maxHeadBytes = 16 * 1024;

interface ReadingSocket extends Socket {
  /** What has been read of a response whose first line is not complete; undefined while its body is read. */
  [unread]?: Buffer | undefined;
}

/**
 * Lets a connection skip `100 Continue` and other interim responses, which a server may send unasked (RFC 9110, section
 * 15.2); undici takes a 100 for an error. All connections share the two functions, because there may be thousands.
 * Needed by bench bridge: "parked call over HTTP".
 */
export function skipInterimResponses(socket: Socket): void {
  socket.write = writeRequest;
  socket.read = readResponse;
}

/** A request begins with its head, a string; parts of a body are buffers, or begin with a line break. */
function writeRequest(this: ReadingSocket, ...args: unknown[]): boolean {
  const [chunk] = args;
  if (typeof chunk === "string" && !chunk.startsWith("\r")) this[unread] = nothing;
  return Socket.prototype.write.apply(this, args as [string]);
}

function readResponse(this: ReadingSocket, size?: number): unknown {
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
