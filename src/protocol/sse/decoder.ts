import { ByteBuffer } from "../byte-buffer.ts";
import { type LineEnds, nextCarriageReturn, nextLineFeed, seekLineEnds } from "./line-end.ts";
import {
  createSseBlock,
  readSseField,
  type SseBlock,
  sseBlockId,
  type SseEnd,
  type SseEvent,
  type SseOverflow,
  toSseEvent,
} from "./event.ts";
import { takePlainEvents } from "./plain-events.ts";

/**
 * What a decoder is made of. The callbacks run inside `push` and must not throw; they are called as members of this
 * object, which may be that of whoever listens.
 */
export interface SseDecoderOptions {
  /** Largest event: the bytes of its lines, each line end counted as one, the blank line not counted. */
  readonly maxEventBytes: number;
  readonly onEvent: (event: SseEvent) => void;
  /** Gets the text behind the colon and one optional space; a comment over the limit is left out. */
  readonly onComment?: (text: string) => void;
  /** Called for every valid `retry` field, also in a block that is no event. */
  readonly onRetry?: (milliseconds: number) => void;
  readonly onOverflow?: (overflow: SseOverflow) => void;
}

/** Turns chunks of bytes into events, wherever the chunks are cut. */
export interface SseDecoder {
  /** Reports what `chunk` completes. Its bytes must not change later, for events point into them. */
  push(chunk: Uint8Array): void;
  /** Ends the stream and says whether an event was cut off; the decoder is then as new. */
  end(): SseEnd;
}

const LF = 0x0a;
const CR = 0x0d;
const COLON = 0x3a;
const SPACE = 0x20;
const byteOrderMark = Buffer.from([0xef, 0xbb, 0xbf]);

/**
 * Makes a decoder of event streams (WHATWG HTML, "Parsing an event stream") that scans bytes,
 * holds at most one unfinished event, and goes on after an event that is too large.
 * Beyond WHATWG it reports events without data, since MCP 2025-11-25 primes its streams with them.
 */
export function createSseDecoder(options: SseDecoderOptions): SseDecoder {
  return new Decoder(options);
}

/** Between two events, which is where streams mostly are. */
const noBlock: SseBlock = Object.freeze(createSseBlock());
/** Nobody puts anything into this one. */
const noHold = new ByteBuffer();

/**
 * A class, because every open stream has one, and may stay open long; what only an unfinished event needs is made for it
 * and let go with it.
 */
class Decoder implements SseDecoder, LineEnds {
  /** The ends of the lines in the chunk that is being read. */
  lineFeed = -1;
  carriageReturn = -1;
  readonly #options: SseDecoderOptions;
  #block: SseBlock = noBlock;
  /** The unfinished block, or the unfinished comment before one, that earlier chunks began. */
  #hold = noHold;
  #holdsComment = false;
  /** Where the unfinished line begins in the hold. */
  #lineFrom = 0;
  #skipping: "nothing" | "line" | "event" = "nothing";
  /** Bytes of the skipped event's complete lines, counted as in a block. */
  #skippedOfBlock = 0;
  /** Bytes of the skipped line that earlier chunks had. */
  #skippedOfLine = 0;
  #lineFeedMayFollow = false;
  /** How much of a leading byte order mark was seen; undefined once that is settled. */
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
        this.#lineFrom = this.#hold.size;
      }
      from += 1;
    }
    this.#scan(chunk, from);
  }

  end(): SseEnd {
    const discarded = this.#unfinishedBytes();
    this.#block = noBlock;
    this.#hold = noHold;
    this.#skipping = "nothing";
    this.#skippedOfLine = 0;
    this.#lineFeedMayFollow = false;
    this.#markSeen = 0;
    return discarded === 0 ? { complete: true } : { complete: false, discarded };
  }

  /** Gives up the block, which has `line` bytes of an unfinished line beside its complete ones. */
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

  /** Takes in a line of the block that begins at `base`; returns where the current block begins after it. */
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

  /** The same for a line that belongs behind what is held. */
  #takeHeldLine(chunk: Buffer, at: number, end: number, next: number): void {
    this.#keep(chunk, at, next);
    const held = this.#hold.size;
    const lineEnd = held - (next - end);
    // A blank line ends the block, whose bytes then belong to the event and are not written to again.
    const source = lineEnd === this.#lineFrom ? this.#hold.take() : this.#hold.bytes();
    const base = this.#takeLine(source, 0, this.#lineFrom, lineEnd, held);
    if (base !== 0) this.#hold = noHold;
    this.#lineFrom = held;
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

  /** Keeps what the chunk leaves unfinished: a block from `base` on, in it a line from `at` on. */
  #keepRest(chunk: Buffer, base: number, at: number): void {
    const rest = chunk.length - at;
    if (this.#skipping !== "nothing") {
      this.#skippedOfLine += rest;
      return;
    }
    const held = this.#hold.size;
    if (held === 0) {
      this.#lineFrom = at - base;
      this.#holdsComment = !this.#block.open && chunk[at] === COLON;
    }
    const line = held === 0 ? rest : held - this.#lineFrom + rest;
    if (this.#holdsComment && (this.#options.onComment === undefined || line >= this.#options.maxEventBytes)) {
      this.#hold = noHold;
      this.#skipping = "line";
    } else if (!this.#holdsComment && line > 0 && this.#block.size + line >= this.#options.maxEventBytes) {
      if (held === 0) this.#overflow(chunk, base, line);
      else this.#overflow(this.#hold.bytes(), 0, line);
      this.#hold = noHold;
    } else {
      this.#keep(chunk, held === 0 ? base : at, chunk.length);
    }
  }

  #keep(chunk: Buffer, from: number, to: number): void {
    if (this.#hold === noHold) this.#hold = new ByteBuffer();
    this.#hold.append(chunk, from, to);
  }

  #scan(chunk: Buffer, from: number): void {
    let at = from;
    let base = from;
    seekLineEnds(this, chunk, at);
    for (;;) {
      if (!this.#block.open && this.#skipping === "nothing" && this.#hold.size === 0) {
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
      } else if (this.#hold.size > 0) {
        this.#takeHeldLine(chunk, at, end, next);
        base = next;
      } else {
        base = this.#takeLine(chunk, base, at, end, next);
      }
      at = next;
    }
    this.#lineFeedMayFollow = at === chunk.length && chunk[at - 1] === CR;
    if (at < chunk.length || this.#block.open) this.#keepRest(chunk, base, at);
  }

  /** Passes over a leading byte order mark; returns where the content of the chunk begins. */
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
    if (this.#hold.size === 0) return this.#markSeen ?? 0;
    return this.#holdsComment ? 0 : this.#block.size + this.#hold.size - this.#lineFrom;
  }
}
