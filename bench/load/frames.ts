/** One HTTP/1.1 message: its first line and headers, and its body. The buffers are only good during the call. */
type OnFrame = (head: string, body: Buffer) => void;

const headEnd = Buffer.from("\r\n\r\n");

/**
 * Takes HTTP/1.1 messages off a connection as they come, with a length or in chunks. It knows no more of HTTP than the
 * benchmark's own peers say to each other, so that its cost does not count.
 */
export function createFrameReader(onFrame: OnFrame): (chunk: Buffer) => void {
  let held: Buffer | undefined;
  return (chunk) => {
    let data = held === undefined ? chunk : Buffer.concat([held, chunk]);
    held = undefined;
    while (data.length > 0) {
      const end = data.indexOf(headEnd);
      const taken = end < 0 ? undefined : takeBody(data, end + headEnd.length);
      if (taken === undefined) {
        held = data;
        return;
      }
      onFrame(taken.head, taken.body);
      data = data.subarray(taken.end);
    }
  };
}

interface Taken {
  readonly head: string;
  readonly body: Buffer;
  /** Where the next message begins. */
  readonly end: number;
}

function takeBody(data: Buffer, start: number): Taken | undefined {
  const head = data.toString("latin1", 0, start);
  const length = Number(/\r\ncontent-length: *(\d+)/i.exec(head)?.[1] ?? 0);
  if (length === 0 && /\r\ntransfer-encoding: *chunked/i.test(head)) return takeChunks(data, start, head);
  const end = start + length;
  return data.length < end ? undefined : { head, body: data.subarray(start, end), end };
}

function takeChunks(data: Buffer, start: number, head: string): Taken | undefined {
  const pieces: Buffer[] = [];
  let at = start;
  for (;;) {
    const lineEnd = data.indexOf("\r\n", at);
    if (lineEnd < 0) return undefined;
    const size = Number.parseInt(data.toString("latin1", at, lineEnd), 16);
    const piece = lineEnd + 2;
    at = piece + size + 2;
    if (data.length < at) return undefined;
    if (size === 0) return { head, body: Buffer.concat(pieces), end: at };
    pieces.push(data.subarray(piece, piece + size));
  }
}
