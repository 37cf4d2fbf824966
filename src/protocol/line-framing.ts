import { ByteBuffer } from "./byte-buffer.ts";
import { stdioLineLimit } from "./message.ts";

/** A line grew beyond the limit and is skipped to its end; the next one is read as usual. */
export interface LineOverflow {
  readonly limit: number;
  /** Bytes of the line when it was given up; more may follow. */
  readonly size: number;
}

/** Whether the input ended between two lines. */
export type LinesEnd =
  | { readonly complete: true }
  | {
      readonly complete: false;
      /** The line that lacks its end; undefined if it was over the limit. */
      readonly rest: Buffer | undefined;
    };

/** What a line reader is made of. The callbacks run inside `push` and must not throw. */
export interface LineReaderOptions {
  /** Largest line in bytes without its line end; 4 MiB unless given. */
  readonly maxLineBytes?: number;
  /** Gets each line that is not blank, without its line end. */
  readonly onLine: (line: Buffer) => void;
  readonly onOverflow?: (overflow: LineOverflow) => void;
}

/** Turns chunks of bytes into lines, wherever the chunks are cut. */
export interface LineReader {
  /** Reports the lines that `chunk` completes. Its bytes must not change later, for lines point into them. */
  push(chunk: Uint8Array): void;
  /** Ends the input and gives the unfinished last line; the reader is then as new. */
  end(): LinesEnd;
}

const LF = 0x0a;
const CR = 0x0d;
const SPACE = 0x20;
const TAB = 0x09;

/**
 * Makes a reader of newline-delimited messages (MCP, stdio transport): lines end with LF or CR LF, a lone CR is
 * content, blank lines are passed over. It holds at most one unfinished line and goes on after one that is too long.
 */
export function createLineReader(options: LineReaderOptions): LineReader {
  const { maxLineBytes = stdioLineLimit, onLine, onOverflow } = options;
  const hold = new ByteBuffer();
  let skipping = false;

  function overflow(size: number): void {
    hold.clear();
    onOverflow?.({ limit: maxLineBytes, size });
  }

  function takeLine(source: Buffer, start: number, lineFeed: number): void {
    const end = contentEnd(source, start, lineFeed);
    if (end - start > maxLineBytes) overflow(end - start);
    else if (!isBlank(source, start, end)) onLine(source.subarray(start, end));
  }

  /** A CR at the very end may turn out to be half a line end, so it does not count yet. */
  function keepRest(chunk: Buffer, at: number): void {
    if (at === chunk.length) return;
    const size = hold.size + chunk.length - at;
    const allowed = chunk[chunk.length - 1] === CR ? maxLineBytes + 1 : maxLineBytes;
    if (size > allowed) {
      skipping = true;
      overflow(size);
    } else {
      hold.append(chunk, at, chunk.length);
    }
  }

  return {
    push(input) {
      const chunk = Buffer.isBuffer(input) ? input : Buffer.from(input.buffer, input.byteOffset, input.byteLength);
      let at = 0;
      let lineFeed = chunk.indexOf(LF);
      while (lineFeed !== -1) {
        if (skipping) {
          skipping = false;
        } else if (hold.size > 0) {
          hold.append(chunk, at, lineFeed);
          const line = hold.take();
          takeLine(line, 0, line.length);
        } else {
          takeLine(chunk, at, lineFeed);
        }
        at = lineFeed + 1;
        lineFeed = chunk.indexOf(LF, at);
      }
      if (!skipping) keepRest(chunk, at);
    },
    end() {
      const cut = skipping;
      skipping = false;
      const held = hold.take();
      const rest = held.subarray(0, contentEnd(held, 0, held.length));
      if (cut) return { complete: false, rest: undefined };
      return isBlank(rest, 0, rest.length) ? { complete: true } : { complete: false, rest };
    },
  };
}

/**
 * Puts a JSON text on one line and ends it with LF. Raw CR and LF in valid JSON stand only between tokens, where a
 * space says the same, so no string changes. CR goes too: some peers read it as a line end.
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
  for (let at = line.indexOf(byte); at !== -1 && at < length; at = line.indexOf(byte, at + 1)) {
    line[at] = SPACE;
  }
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
