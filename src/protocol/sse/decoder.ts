import { ByteBuffer } from "../line-framing.ts";
import {
  createSseBlock,
  DecodedSseEvent,
  readSseField,
  type SseBlock,
  sseBlockId,
  type SseEnd,
  type SseEvent,
  type SseOverflow,
  toSseEvent,
} from "./event.ts";

/** The callbacks run inside `push` and must not throw. They are called as methods of this object. */
export interface SseDecoderOptions {
  /** Limit of an event: the bytes of its lines, with each line end counted as one and the blank line not counted. */
  readonly maxEventBytes: number;
  readonly onEvent: (event: SseEvent) => void;
  /** Gets the text after the colon and one optional space; comments over the limit are skipped. */
  readonly onComment?: (text: string) => void;
  /** Called for every valid `retry` field, even in a block without data or id. */
  readonly onRetry?: (milliseconds: number) => void;
  readonly onOverflow?: (overflow: SseOverflow) => void;
}

/** Turns chunks of bytes into events; chunks may be split anywhere. */
export interface SseDecoder {
  /** Reports the events that `chunk` completes. Events point into its bytes, so these must not change later. */
  push(chunk: Uint8Array): void;
  /** Ends the stream and tells whether an event was cut off. The decoder can then be used again. */
  end(): SseEnd;
}

const LF = 0x0a;
const CR = 0x0d;
const COLON = 0x3a;
const SPACE = 0x20;
const byteOrderMark = Buffer.from([0xef, 0xbb, 0xbf]);

/**
 * Makes a decoder of event streams (WHATWG HTML, "Parsing an event stream"). It buffers at most one unfinished event
 * and continues after an event over the limit. Unlike WHATWG it reports events without data, because MCP 2025-11-25
 * primes its streams with them.
 *
 * @example
 * const decoder = createSseDecoder({ maxEventBytes: 1_000_000, onEvent: (event) => console.log(event.data.toString()) });
 * decoder.push(Buffer.from("data: hello\n\n")); // logs "hello"
 */
export function createSseDecoder(options: SseDecoderOptions): SseDecoder {
  return new Decoder(options);
}

/** The state between two events. */
const noBlock: SseBlock = Object.freeze(createSseBlock());
/** Shared by all idle decoders and never written to. */
const emptyBuffer = new ByteBuffer();

/** A class, because every open stream keeps one; memory for an unfinished event is allocated only while it lasts. */
class Decoder implements SseDecoder, LineEnds {
  /** The next line ends in the chunk that is being read. */
  lineFeed = -1;
  carriageReturn = -1;
  readonly #options: SseDecoderOptions;
  #block: SseBlock = noBlock;
  /** The bytes of earlier chunks that belong to an unfinished block or comment. */
  #buffer = emptyBuffer;
  #bufferHasComment = false;
  /** Offset of the unfinished line in the buffer. */
  #lineFrom = 0;
  #skipping: "nothing" | "line" | "event" = "nothing";
  /** Bytes of the skipped event's complete lines, counted as in a block. */
  #skippedOfBlock = 0;
  /** Bytes of the skipped line in earlier chunks. */
  #skippedOfLine = 0;
  #lineFeedMayFollow = false;
  /** Bytes of a leading byte order mark seen so far; undefined after the start of the stream. */
  #markSeen: number | undefined = 0;

  constructor(options: SseDecoderOptions) {
    this.#options = options;
  }

  push(input: Uint8Array): void {
    const chunk = Buffer.isBuffer(input) ? input : Buffer.from(input.buffer, input.byteOffset, input.byteLength);
    let from = this.#markSeen === undefined ? 0 : this.#skipMark(chunk, this.#markSeen);
    if (from === chunk.length) return;
    if (this.#lineFeedMayFollow && chunk[from] === LF) {
      if (this.#block.open) {
        this.#keep(chunk, from, from + 1);
        this.#lineFrom = this.#buffer.size;
      }
      from += 1;
    }
    this.#scan(chunk, from);
  }

  end(): SseEnd {
    const discarded = this.#unfinishedBytes();
    this.#block = noBlock;
    this.#buffer = emptyBuffer;
    this.#skipping = "nothing";
    this.#skippedOfLine = 0;
    this.#lineFeedMayFollow = false;
    this.#markSeen = 0;
    return discarded === 0 ? { complete: true } : { complete: false, discarded };
  }

  /** Skips the block, which has `line` bytes of an unfinished line besides its complete lines. */
  #overflow(source: Buffer, base: number, line: number): void {
    const { size, event } = this.#block;
    const id = sseBlockId(this.#block, source, base);
    this.#block = noBlock;
    this.#skippedOfBlock = size;
    this.#skipping = "event";
    this.#skippedOfLine = line;
    this.#options.onOverflow?.({ limit: this.#options.maxEventBytes, size: size + line, id, event });
  }

  #readComment(source: Buffer, start: number, end: number): void {
    if (this.#options.onComment === undefined) return;
    this.#options.onComment(source.toString("utf8", source[start + 1] === SPACE ? start + 2 : start + 1, end));
  }

  /** Processes a line of the block that begins at `base`; returns where the current block begins afterwards. */
  #takeLine(source: Buffer, base: number, start: number, end: number, next: number): number {
    if (start === end) {
      if (!this.#block.open) return next;
      const event = toSseEvent(this.#block, source, base, next);
      this.#block = noBlock;
      if (event !== undefined) this.#options.onEvent(event);
      return next;
    }
    const isComment = source[start] === COLON;
    if (isComment && !this.#block.open) {
      if (end - start < this.#options.maxEventBytes) this.#readComment(source, start, end);
      return next;
    }
    const block = this.#block === noBlock ? createSseBlock() : this.#block;
    this.#block = block;
    block.size += end - start + 1;
    if (block.size > this.#options.maxEventBytes) {
      this.#overflow(source, base, 0);
      return next;
    }
    if (isComment) this.#readComment(source, start, end);
    else if (readSseField(block, source, base, start, end) === "retry") this.#options.onRetry?.(block.retry ?? 0);
    return base;
  }

  /** The same for a line that continues the buffered bytes. */
  #takeBufferedLine(chunk: Buffer, at: number, end: number, next: number): void {
    this.#keep(chunk, at, next);
    const buffered = this.#buffer.size;
    const lineEnd = buffered - (next - end);
    // A blank line ends the block; its bytes then belong to the event and are not written to again.
    const source = lineEnd === this.#lineFrom ? this.#buffer.take() : this.#buffer.bytes();
    const base = this.#takeLine(source, 0, this.#lineFrom, lineEnd, buffered);
    if (base !== 0) this.#buffer = emptyBuffer;
    this.#lineFrom = buffered;
  }

  #skipLine(length: number): void {
    const whole = this.#skippedOfLine + length;
    this.#skippedOfLine = 0;
    if (this.#skipping === "event" && whole > 0) {
      this.#skippedOfBlock += whole + 1;
    } else {
      this.#skipping = "nothing";
    }
  }

  /** Buffers what the chunk leaves unfinished: a block from `base` on, and in it a line from `at` on. */
  #keepRest(chunk: Buffer, base: number, at: number): void {
    const rest = chunk.length - at;
    if (this.#skipping !== "nothing") {
      this.#skippedOfLine += rest;
      return;
    }
    const buffered = this.#buffer.size;
    if (buffered === 0) {
      this.#lineFrom = at - base;
      this.#bufferHasComment = !this.#block.open && chunk[at] === COLON;
    }
    const line = buffered === 0 ? rest : buffered - this.#lineFrom + rest;
    if (this.#bufferHasComment && (this.#options.onComment === undefined || line >= this.#options.maxEventBytes)) {
      this.#buffer = emptyBuffer;
      this.#skipping = "line";
    } else if (!this.#bufferHasComment && line > 0 && this.#block.size + line >= this.#options.maxEventBytes) {
      if (buffered === 0) this.#overflow(chunk, base, line);
      else this.#overflow(this.#buffer.bytes(), 0, line);
      this.#buffer = emptyBuffer;
    } else {
      this.#keep(chunk, buffered === 0 ? base : at, chunk.length);
    }
  }

  #keep(chunk: Buffer, from: number, to: number): void {
    if (this.#buffer === emptyBuffer) this.#buffer = new ByteBuffer();
    this.#buffer.append(chunk, from, to);
  }

  #scan(chunk: Buffer, from: number): void {
    let at = from;
    let base = from;
    this.lineFeed = chunk.indexOf(LF, at);
    this.carriageReturn = chunk.indexOf(CR, at);
    for (;;) {
      if (!this.#block.open && this.#skipping === "nothing" && this.#buffer.size === 0) {
        at = takePlainEvents(chunk, at, this, this.#options);
        base = at;
      }
      const lineFeed = nextLineFeed(this, chunk, at);
      const carriageReturn = nextCarriageReturn(this, chunk, at);
      let end = lineFeed;
      let next = lineFeed + 1;
      if (carriageReturn !== -1 && (lineFeed === -1 || carriageReturn < lineFeed)) {
        end = carriageReturn;
        next = carriageReturn + 1 === lineFeed ? carriageReturn + 2 : carriageReturn + 1;
      }
      if (end === -1) break;
      if (this.#skipping !== "nothing") {
        this.#skipLine(end - at);
        base = next;
      } else if (this.#buffer.size > 0) {
        this.#takeBufferedLine(chunk, at, end, next);
        base = next;
      } else {
        base = this.#takeLine(chunk, base, at, end, next);
      }
      at = next;
    }
    this.#lineFeedMayFollow = at === chunk.length && chunk[at - 1] === CR;
    if (at < chunk.length || this.#block.open) this.#keepRest(chunk, base, at);
  }

  /** Skips a leading byte order mark; returns where the content of the chunk begins. */
  #skipMark(chunk: Buffer, seen: number): number {
    let at = 0;
    while (seen + at < byteOrderMark.length && at < chunk.length) {
      if (chunk[at] !== byteOrderMark[seen + at]) {
        this.#markSeen = undefined;
        if (seen > 0) this.#scan(byteOrderMark.subarray(0, seen), 0);
        return 0;
      }
      at += 1;
    }
    this.#markSeen = seen + at === byteOrderMark.length ? undefined : seen + at;
    return at;
  }

  #unfinishedBytes(): number {
    if (this.#skipping === "event") return this.#skippedOfBlock + this.#skippedOfLine;
    if (this.#buffer.size === 0) return this.#markSeen ?? 0;
    return this.#bufferHasComment ? 0 : this.#block.size + this.#buffer.size - this.#lineFrom;
  }
}

/** The next line ends of a chunk, kept until passed, so that each byte is searched once for LF and once for CR. */
interface LineEnds {
  lineFeed: number;
  carriageReturn: number;
}

/** The first LF at or after `at`, or -1; `at` never decreases. */
function nextLineFeed(ends: LineEnds, chunk: Buffer, at: number): number {
  if (ends.lineFeed !== -1 && ends.lineFeed < at) ends.lineFeed = chunk[at] === LF ? at : chunk.indexOf(LF, at);
  return ends.lineFeed;
}

/** The first CR at or after `at`, or -1; `at` never decreases. */
function nextCarriageReturn(ends: LineEnds, chunk: Buffer, at: number): number {
  if (ends.carriageReturn !== -1 && ends.carriageReturn < at) ends.carriageReturn = chunk.indexOf(CR, at);
  return ends.carriageReturn;
}

const messageLineSize = "event: message\n".length;

/**
 * Takes the plain events that lie completely in `chunk` from `from` on: optional lines `event: message` and `id`, one
 * data line and the blank line. Returns the offset of the first byte that it leaves to the general path.
 *
 * Needed by bench sse: "SSE, 200 B events". Nearly all events are plain, and a separate loop lets the compiler inline it.
 */
function takePlainEvents(
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
    // Only now: what is left to the caller begins before these line ends.
    ends.lineFeed = lineFeed;
    ends.carriageReturn = carriageReturn;
    at = next;
    options.onEvent(event);
  }
}

/** The offset after the line `event: message` at `at`, or -1. MCP has no other type. */
function messageLineEnd(chunk: Buffer, at: number): number {
  if (at + messageLineSize >= chunk.length || word(chunk, at) !== evenWord) return -1;
  if (word(chunk, at + 4) !== tMWord || word(chunk, at + 8) !== essaWord) return -1;
  if (chunk[at + 12] !== 0x67 || chunk[at + 13] !== 0x65) return -1;
  if (chunk[at + 14] === LF) return at + 15;
  return chunk[at + 14] === CR && chunk[at + 15] === LF ? at + 16 : -1;
}

/** The end of the id line at `at`, or -1 if it is long, contains NUL or a lone CR, or does not end in the chunk. */
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

/** The offset after the blank line at `at`, or -1 if there is none or the chunk ends too early to tell. */
function blankLineEnd(chunk: Buffer, at: number): number {
  if (chunk[at] === LF) return at + 1;
  return chunk[at] === CR && chunk[at + 1] === LF ? at + 2 : -1;
}

/** Four bytes as one number, which compares names in a third of the time of a loop. */
function word(bytes: Uint8Array, at: number): number {
  return (bytes[at] ?? 0) | ((bytes[at + 1] ?? 0) << 8) | ((bytes[at + 2] ?? 0) << 16) | ((bytes[at + 3] ?? 0) << 24);
}

const dataWord = word(Buffer.from("data"), 0);
const evenWord = word(Buffer.from("even"), 0);
const tMWord = word(Buffer.from("t: m"), 0);
const essaWord = word(Buffer.from("essa"), 0);
