import { createByteHold } from "./byte-hold.ts";
import { nextCarriageReturn, nextLineFeed, seekLineEnds } from "./line-end.ts";
import type { LineEnds } from "./line-end.ts";
import { clearSseBlock, createSseBlock, readSseField, sseBlockId, toSseEvent } from "./sse-block.ts";
import type { SseEnd, SseEvent, SseOverflow } from "./sse-event.ts";
import { takePlainEvents } from "./sse-plain.ts";

/** What a decoder is made of. The callbacks run inside `push` and must not throw. */
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
  const { maxEventBytes, onEvent, onComment, onRetry, onOverflow } = options;
  const block = createSseBlock();
  /** The unfinished block, or the unfinished comment before one, that earlier chunks began. */
  const hold = createByteHold();
  let holdsComment = false;
  /** Where the unfinished line begins in the hold. */
  let lineFrom = 0;
  let skipping: "nothing" | "line" | "event" = "nothing";
  /** Bytes of the skipped line that earlier chunks had. */
  let skippedOfLine = 0;
  let lineFeedMayFollow = false;
  /** How much of a leading byte order mark was seen; undefined once that is settled. */
  let markSeen: number | undefined = 0;
  const ends: LineEnds = { lineFeed: -1, carriageReturn: -1 };

  /** Gives up the block, which has `line` bytes of an unfinished line beside its complete ones. */
  function overflow(source: Buffer, base: number, line: number): void {
    const { size, event } = block;
    const id = sseBlockId(block, source, base);
    clearSseBlock(block);
    block.size = size;
    skipping = "event";
    skippedOfLine = line;
    onOverflow?.({ limit: maxEventBytes, size: size + line, id, event });
  }

  function readComment(source: Buffer, start: number, end: number): void {
    if (onComment === undefined) return;
    onComment(source.toString("utf8", source[start + 1] === SPACE ? start + 2 : start + 1, end));
  }

  /** Takes in a line of the block that begins at `base`; returns where the current block begins after it. */
  function takeLine(source: Buffer, base: number, start: number, end: number, next: number): number {
    if (start === end) {
      if (!block.open) return next;
      const event = toSseEvent(block, source, base, next);
      clearSseBlock(block);
      if (event !== undefined) onEvent(event);
      return next;
    }
    const isComment = source[start] === COLON;
    if (isComment && !block.open) {
      if (end - start < maxEventBytes) readComment(source, start, end);
      return next;
    }
    block.size += end - start + 1;
    if (block.size > maxEventBytes) {
      overflow(source, base, 0);
      return next;
    }
    if (isComment) readComment(source, start, end);
    else if (readSseField(block, source, base, start, end) === "retry") onRetry?.(block.retry ?? 0);
    return base;
  }

  /** The same for a line that belongs behind what is held. */
  function takeHeldLine(chunk: Buffer, at: number, end: number, next: number): void {
    hold.append(chunk, at, next);
    const held = hold.size();
    const lineEnd = held - (next - end);
    // A blank line ends the block, whose bytes then belong to the event and are not written to again.
    const source = lineEnd === lineFrom ? hold.take() : hold.bytes();
    const base = takeLine(source, 0, lineFrom, lineEnd, held);
    if (base !== 0) hold.clear();
    lineFrom = held;
  }

  function skipLine(length: number): void {
    const whole = skippedOfLine + length;
    skippedOfLine = 0;
    if (skipping === "event" && whole > 0) {
      block.size += whole + 1;
    } else {
      skipping = "nothing";
      block.size = 0;
    }
  }

  /** Keeps what the chunk leaves unfinished: a block from `base` on, in it a line from `at` on. */
  function keepRest(chunk: Buffer, base: number, at: number): void {
    const rest = chunk.length - at;
    if (skipping !== "nothing") {
      skippedOfLine += rest;
      return;
    }
    const held = hold.size();
    if (held === 0) {
      lineFrom = at - base;
      holdsComment = !block.open && chunk[at] === COLON;
    }
    const line = held === 0 ? rest : held - lineFrom + rest;
    if (holdsComment && (onComment === undefined || line >= maxEventBytes)) {
      hold.clear();
      skipping = "line";
    } else if (!holdsComment && line > 0 && block.size + line >= maxEventBytes) {
      if (held === 0) overflow(chunk, base, line);
      else overflow(hold.bytes(), 0, line);
      hold.clear();
    } else {
      hold.append(chunk, held === 0 ? base : at, chunk.length);
    }
  }

  function scan(chunk: Buffer, from: number): void {
    let at = from;
    let base = from;
    seekLineEnds(ends, chunk, at);
    for (;;) {
      if (!block.open && skipping === "nothing" && hold.size() === 0) {
        at = takePlainEvents(chunk, at, ends, maxEventBytes, onEvent);
        base = at;
      }
      const lineFeed = nextLineFeed(ends, chunk, at);
      const carriageReturn = nextCarriageReturn(ends, chunk, at);
      let end = lineFeed;
      let next = lineFeed + 1;
      if (carriageReturn !== -1 && (lineFeed === -1 || carriageReturn < lineFeed)) {
        end = carriageReturn;
        next = carriageReturn + 1 === lineFeed ? carriageReturn + 2 : carriageReturn + 1;
      }
      if (end === -1) break;
      if (skipping !== "nothing") {
        skipLine(end - at);
        base = next;
      } else if (hold.size() > 0) {
        takeHeldLine(chunk, at, end, next);
        base = next;
      } else {
        base = takeLine(chunk, base, at, end, next);
      }
      at = next;
    }
    lineFeedMayFollow = at === chunk.length && chunk[at - 1] === CR;
    if (at < chunk.length || block.open) keepRest(chunk, base, at);
  }

  /** Passes over a leading byte order mark; returns where the content of the chunk begins. */
  function skipMark(chunk: Buffer, seen: number): number {
    let at = 0;
    while (seen + at < byteOrderMark.length && at < chunk.length) {
      if (chunk[at] !== byteOrderMark[seen + at]) {
        markSeen = undefined;
        if (seen > 0) scan(byteOrderMark.subarray(0, seen), 0);
        return 0;
      }
      at += 1;
    }
    markSeen = seen + at === byteOrderMark.length ? undefined : seen + at;
    return at;
  }

  function unfinishedBytes(): number {
    if (skipping === "event") return block.size + skippedOfLine;
    if (hold.size() === 0) return markSeen ?? 0;
    return holdsComment ? 0 : block.size + hold.size() - lineFrom;
  }

  return {
    push(input) {
      const chunk = Buffer.isBuffer(input)
        ? input
        : Buffer.from(input.buffer, input.byteOffset, input.byteLength);
      let from = markSeen === undefined ? 0 : skipMark(chunk, markSeen);
      if (from === chunk.length) return;
      if (lineFeedMayFollow && chunk[from] === LF) {
        if (block.open) {
          hold.append(chunk, from, from + 1);
          lineFrom = hold.size();
        }
        from += 1;
      }
      scan(chunk, from);
    },
    end() {
      const discarded = unfinishedBytes();
      clearSseBlock(block);
      hold.clear();
      skipping = "nothing";
      skippedOfLine = 0;
      lineFeedMayFollow = false;
      markSeen = 0;
      return discarded === 0 ? { complete: true } : { complete: false, discarded };
    },
  };
}
