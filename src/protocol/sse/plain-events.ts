import type { LineEnds } from "./line-end.ts";
import { DecodedSseEvent, type SseEvent } from "./event.ts";

const LF = 0x0a;
const CR = 0x0d;
const SPACE = 0x20;
const COLON = 0x3a;
const messageLineSize = "event: message\n".length;

/**
 * Takes the plain events that lie whole in `chunk` from `from` on: `event: message` and an id, each or both or none,
 * then one data line and the blank line. Returns where something else begins; whatever is odd is left to the caller.
 * Nearly all events are plain, and this is apart from the general path so that the compiler can inline all of it.
 */
export function takePlainEvents(
  chunk: Buffer,
  from: number,
  ends: LineEnds,
  options: { readonly maxEventBytes: number; readonly onEvent: (event: SseEvent) => void },
): number {
  const { maxEventBytes } = options;
  let at = from;
  let { lineFeed, carriageReturn } = ends;
  for (;;) {
    let line = at;
    let size = 0;
    let isMessage = false;
    let idStart = -1;
    let idEnd = -1;
    const behindType = messageLineEnd(chunk, line);
    if (behindType !== -1) {
      line = behindType;
      size = messageLineSize;
      isMessage = true;
    }
    if (chunk[line] === 0x69) {
      idEnd = plainIdEnd(chunk, line);
      if (idEnd === -1) return at;
      idStart = (chunk[line + 3] === SPACE ? line + 4 : line + 3) - at;
      size += idEnd - line + 1;
      line = chunk[idEnd] === CR ? idEnd + 2 : idEnd + 1;
      const behindLateType = messageLineEnd(chunk, line);
      if (behindLateType !== -1) {
        line = behindLateType;
        size += messageLineSize;
        isMessage = true;
      }
    }
    if (line + 6 > chunk.length || word(chunk, line) !== dataWord || chunk[line + 4] !== COLON) return at;
    if (lineFeed !== -1 && lineFeed < line) lineFeed = chunk.indexOf(LF, line);
    if (carriageReturn !== -1 && carriageReturn < line) carriageReturn = chunk.indexOf(CR, line);
    const end = carriageReturn !== -1 && carriageReturn < lineFeed ? carriageReturn : lineFeed;
    const next = blankLineEnd(chunk, lineFeed + 1);
    if (lineFeed === -1 || next === -1 || end < lineFeed - 1 || size + end - line >= maxEventBytes) return at;
    const value = (chunk[line + 5] === SPACE ? line + 6 : line + 5) - at;
    const type = isMessage ? "message" : undefined;
    const event = new DecodedSseEvent(
      chunk,
      at,
      next,
      value,
      end - at,
      undefined,
      idStart,
      idEnd - at,
      type,
      undefined,
    );
    // Not before: what is left to the caller begins before these finds.
    ends.lineFeed = lineFeed;
    ends.carriageReturn = carriageReturn;
    at = next;
    options.onEvent(event);
  }
}

/** Behind the line `event: message` at `at`, or -1. MCP knows no other type, so it comes with nearly every event. */
function messageLineEnd(chunk: Buffer, at: number): number {
  if (at + messageLineSize >= chunk.length || word(chunk, at) !== evenWord) return -1;
  if (word(chunk, at + 4) !== tMWord || word(chunk, at + 8) !== essaWord) return -1;
  if (chunk[at + 12] !== 0x67 || chunk[at + 13] !== 0x65) return -1;
  if (chunk[at + 14] === LF) return at + 15;
  return chunk[at + 14] === CR && chunk[at + 15] === LF ? at + 16 : -1;
}

/** Where the id line at `at` ends, or -1 if it is long, has a NUL, a lone CR or no end in the chunk. */
function plainIdEnd(chunk: Buffer, at: number): number {
  if (chunk[at + 1] !== 0x64 || chunk[at + 2] !== COLON) return -1;
  const stop = Math.min(at + 256, chunk.length);
  for (let i = at + 3; i < stop; i += 1) {
    const byte = chunk[i] ?? 0;
    if (byte > CR) continue;
    if (byte === LF || (byte === CR && chunk[i + 1] === LF)) return i;
    if (byte === CR || byte === 0) return -1;
  }
  return -1;
}

/** Behind the blank line at `at`, or -1 if there is none or the chunk ends before that is certain. */
function blankLineEnd(chunk: Buffer, at: number): number {
  if (chunk[at] === LF) return at + 1;
  return chunk[at] === CR && chunk[at + 1] === LF ? at + 2 : -1;
}

/** Four bytes as one number: comparing names so takes a third of the time of a loop. */
function word(bytes: Uint8Array, at: number): number {
  return (bytes[at] ?? 0) | ((bytes[at + 1] ?? 0) << 8) | ((bytes[at + 2] ?? 0) << 16) | ((bytes[at + 3] ?? 0) << 24);
}

const dataWord = word(Buffer.from("data"), 0);
const evenWord = word(Buffer.from("even"), 0);
const tMWord = word(Buffer.from("t: m"), 0);
const essaWord = word(Buffer.from("essa"), 0);
