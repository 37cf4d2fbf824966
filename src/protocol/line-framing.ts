import { stdioLineLimit } from "./message.ts";

/** A line over the limit. It is skipped to its end. */
export interface LineOverflow {
  readonly limit: number;
  /** Bytes of the line so far; more may follow. */
  readonly size: number;
}

/** Both ends of a line over the limit: enough to tell which request it is about. */
export interface SkippedLine {
  readonly limit: number;
  /** The bytes of the whole line. */
  readonly size: number;
  /** Its first bytes, at most 1024. */
  readonly start: Buffer;
  /** Its last bytes, at most 1024. */
  readonly end: Buffer;
}

/** Whether the input ended after a complete line. */
export type LinesEnd =
  | { readonly complete: true }
  | {
      readonly complete: false;
      /** The unfinished line; undefined if it was over the limit. */
      readonly rest: Buffer | undefined;
    };

/** The callbacks run inside `push` and must not throw. */
export interface LineReaderOptions {
  /** Limit of a line in bytes, without its line end; 4 MiB by default. */
  readonly maxLineBytes?: number;
  /** Gets each non-blank line, without its line end. */
  readonly onLine: (line: Buffer) => void;
  readonly onOverflow?: (overflow: LineOverflow) => void;
  /** Gets each line over the limit when it has ended; `onOverflow` gets it when it exceeds the limit. */
  readonly onSkipped?: (line: SkippedLine) => void;
}

/** Turns chunks of bytes into lines; chunks may be split anywhere. */
export interface LineReader {
  /** Reports the lines that `chunk` completes. Lines point into its bytes, so these must not change later. */
  push(chunk: Uint8Array): void;
  /** Ends the input and returns the unfinished last line. The reader can then be used again. */
  end(): LinesEnd;
}

/** How much of either end of a skipped line is kept: room for the id of a message. */
const keptOfSkipped = 1024;

const LF = 0x0a;
const CR = 0x0d;
const SPACE = 0x20;
const TAB = 0x09;

/**
 * Makes a reader of newline-delimited messages (MCP, stdio transport). Lines end with LF or CR LF, a lone CR is
 * content, and blank lines are skipped. It buffers at most one unfinished line and continues after one over the limit.
 *
 * @example
 * const reader = createLineReader({ onLine: (line) => handle(parse(line, context)) });
 * process.stdin.on("data", (chunk: Buffer) => reader.push(chunk));
 */
export function createLineReader(options: LineReaderOptions): LineReader {
  const { maxLineBytes = stdioLineLimit, onLine, onOverflow, onSkipped } = options;
  const buffer = new ByteBuffer();
  let skipped: SkippedLine | undefined;

  function overflow(size: number): void {
    onOverflow?.({ limit: maxLineBytes, size });
  }

  /** Copies, so that a few bytes do not keep a large chunk in memory. */
  function skippedFrom(line: Buffer): SkippedLine {
    return {
      limit: maxLineBytes,
      size: line.length,
      start: startOf(line),
      end: Buffer.from(line.subarray(-keptOfSkipped)),
    };
  }

  function skip({ limit, size, start, end }: SkippedLine, more: Buffer): SkippedLine {
    return {
      limit,
      size: size + more.length,
      start: start.length < keptOfSkipped ? startOf(Buffer.concat([start, startOf(more)])) : start,
      end: Buffer.concat([end, more.subarray(-keptOfSkipped)]).subarray(-keptOfSkipped),
    };
  }

  function takeLine(source: Buffer, start: number, lineFeed: number): void {
    const end = contentEnd(source, start, lineFeed);
    if (end - start > maxLineBytes) {
      const line = source.subarray(start, end);
      overflow(line.length);
      onSkipped?.(skippedFrom(line));
    } else if (!isBlank(source, start, end)) onLine(source.subarray(start, end));
  }

  /** A CR at the end of the chunk may be half a line end, so it does not count yet. */
  function keepRest(chunk: Buffer, at: number): void {
    if (at === chunk.length) return;
    const allowed = chunk[chunk.length - 1] === CR ? maxLineBytes + 1 : maxLineBytes;
    buffer.append(chunk, at, chunk.length);
    if (buffer.size <= allowed) return;
    skipped = skippedFrom(buffer.take());
    overflow(skipped.size);
  }

  return {
    push(input) {
      const chunk = Buffer.isBuffer(input) ? input : Buffer.from(input.buffer, input.byteOffset, input.byteLength);
      let at = 0;
      let lineFeed = chunk.indexOf(LF);
      while (lineFeed !== -1) {
        if (skipped !== undefined) {
          onSkipped?.(skip(skipped, chunk.subarray(at, lineFeed)));
          skipped = undefined;
        } else if (buffer.size > 0) {
          buffer.append(chunk, at, lineFeed);
          const line = buffer.take();
          takeLine(line, 0, line.length);
        } else {
          takeLine(chunk, at, lineFeed);
        }
        at = lineFeed + 1;
        lineFeed = chunk.indexOf(LF, at);
      }
      if (skipped === undefined) keepRest(chunk, at);
      else skipped = skip(skipped, chunk.subarray(at));
    },
    end() {
      const cut = skipped !== undefined;
      skipped = undefined;
      const held = buffer.take();
      const rest = held.subarray(0, contentEnd(held, 0, held.length));
      if (cut) return { complete: false, rest: undefined };
      return isBlank(rest, 0, rest.length) ? { complete: true } : { complete: false, rest };
    },
  };
}

/**
 * Puts JSON text on one line that ends with LF. In valid JSON, raw CR and LF only occur between tokens, so replacing
 * them by spaces changes no string. Some peers read CR as a line end, so it is replaced too.
 */
export function frameLine(json: Buffer): Buffer {
  const line = Buffer.allocUnsafe(json.length + 1);
  line.set(json, 0);
  line[json.length] = LF;
  blankOut(line, LF, json.length);
  blankOut(line, CR, json.length);
  return line;
}

function blankOut(line: Buffer, byte: number, length: number): void {
  for (let at = line.indexOf(byte); at !== -1 && at < length; at = line.indexOf(byte, at + 1)) line[at] = SPACE;
}

function startOf(bytes: Buffer): Buffer {
  return Buffer.from(bytes.subarray(0, keptOfSkipped));
}

function contentEnd(source: Buffer, start: number, end: number): number {
  return end > start && source[end - 1] === CR ? end - 1 : end;
}

function isBlank(source: Buffer, start: number, end: number): boolean {
  for (let i = start; i < end; i += 1) {
    const byte = source[i];
    if (byte !== SPACE && byte !== TAB && byte !== CR) return false;
  }
  return true;
}

const nothing = Buffer.alloc(0);
/** Smaller pieces are copied at once: a view takes a hundred bytes and keeps its whole chunk in memory. */
const smallestPiece = 1024;
/** Extra room, so that an event of common size fits without growing. */
const slack = 512;

/** Bytes that are kept from one chunk to the next, at linear cost for any number of pieces. Every open stream has one. */
export class ByteBuffer {
  #store: Buffer = nothing;
  #stored = 0;
  /** Pieces after the stored bytes that are not copied yet. */
  #pieces: Buffer[] | undefined;
  #used = 0;

  /** The number of bytes in the buffer. */
  get size(): number {
    return this.#used;
  }

  /** Appends `source[from, to)`. `source` must not change while it is buffered. */
  append(source: Buffer, from: number, to: number): void {
    if (from === to) return;
    this.#used += to - from;
    if (to - from >= smallestPiece) {
      (this.#pieces ??= []).push(source.subarray(from, to));
      return;
    }
    this.#reserve(this.#used);
    this.#gather();
    this.#stored += source.copy(this.#store, this.#stored, from, to);
  }

  /** All bytes in one piece, valid until the next `append`. */
  bytes(): Buffer {
    this.#gather();
    return this.#store.subarray(0, this.#used);
  }

  /** Returns all bytes and empties the buffer. */
  take(): Buffer {
    const taken = this.bytes();
    this.clear();
    return taken;
  }

  /** Empties the buffer. */
  clear(): void {
    this.#store = nothing;
    this.#stored = 0;
    this.#pieces = undefined;
    this.#used = 0;
  }

  #reserve(total: number): void {
    if (total <= this.#store.length) return;
    const larger = Buffer.allocUnsafe(Math.max(total + slack, this.#store.length * 2));
    this.#store.copy(larger, 0, 0, this.#stored);
    this.#store = larger;
  }

  #gather(): void {
    const pieces = this.#pieces;
    if (pieces === undefined) return;
    this.#reserve(this.#used);
    for (const piece of pieces) this.#stored += piece.copy(this.#store, this.#stored);
    this.#pieces = undefined;
  }
}
