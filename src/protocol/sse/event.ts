/** What the lines of one block have said so far. Positions count from the block's first byte, for the block may move. */
export interface SseBlock {
  /** Whether a field line was seen; comments before the first one belong to no block. */
  open: boolean;
  /** Bytes of the complete lines, each line end counted as one. */
  size: number;
  /** Where the id stands; -1 without one. */
  idStart: number;
  idEnd: number;
  event: string | undefined;
  retry: number | undefined;
  /** Start and end of each data line. */
  data: number[];
}

const LF = 0x0a;
const COLON = 0x3a;
const SPACE = 0x20;
const ZERO = 0x30;

/** Makes a block that has seen nothing. */
export function createSseBlock(): SseBlock {
  return { open: false, size: 0, idStart: -1, idEnd: -1, event: undefined, retry: undefined, data: [] };
}

/**
 * Takes in the line `source[start, end)` of the block that begins at `base` and says which field it set:
 * none for an unknown name, an id with NUL or a retry that is no number (WHATWG HTML, "Interpreting an event stream").
 */
export function readSseField(
  block: SseBlock,
  source: Buffer,
  base: number,
  start: number,
  end: number,
): "data" | "event" | "id" | "retry" | undefined {
  block.open = true;
  if (isSseField("data", source, start, end)) {
    block.data.push(valueStart("data", source, start, end) - base, end - base);
    return "data";
  }
  if (isSseField("event", source, start, end)) {
    const value = valueStart("event", source, start, end);
    block.event = value === end ? undefined : source.toString("utf8", value, end);
    return "event";
  }
  if (isSseField("id", source, start, end)) {
    const value = valueStart("id", source, start, end);
    if (source.subarray(value, end).includes(0)) return undefined;
    block.idStart = value - base;
    block.idEnd = end - base;
    return "id";
  }
  if (!isSseField("retry", source, start, end)) return undefined;
  const milliseconds = digitsOf(source, valueStart("retry", source, start, end), end);
  if (milliseconds === undefined) return undefined;
  block.retry = milliseconds;
  return "retry";
}

/** The id that the block at `base` has set. */
export function sseBlockId(block: SseBlock, source: Buffer, base: number): string | undefined {
  return block.idStart < 0 ? undefined : source.toString("utf8", base + block.idStart, base + block.idEnd);
}

/** The event of the block `source[base, next)`, if it is one. */
export function toSseEvent(block: SseBlock, source: Buffer, base: number, next: number): SseEvent | undefined {
  const { data, idStart, idEnd, event, retry } = block;
  if (data.length === 0 && idStart < 0) return undefined;
  const only = data.length === 2;
  const joined = only ? undefined : joinLines(source, base, data);
  const start = only ? (data[0] ?? 0) : 0;
  const end = only ? (data[1] ?? 0) : (joined?.length ?? 0);
  return new DecodedSseEvent(source, base, next, start, end, joined, idStart, idEnd, event, retry);
}

/**
 * An event as positions in `source`, which count from `start`. A class, because its views and its id are made
 * only when asked for: each costs as much as all the rest of decoding a small event.
 */
export class DecodedSseEvent implements SseEvent {
  readonly event: string | undefined;
  readonly retry: number | undefined;
  readonly #source: Buffer;
  readonly #start: number;
  readonly #end: number;
  readonly #dataStart: number;
  readonly #dataEnd: number;
  readonly #idStart: number;
  readonly #idEnd: number;
  #data: Buffer | undefined;

  constructor(
    source: Buffer,
    start: number,
    end: number,
    dataStart: number,
    dataEnd: number,
    data: Buffer | undefined,
    idStart: number,
    idEnd: number,
    event: string | undefined,
    retry: number | undefined,
  ) {
    this.event = event;
    this.retry = retry;
    this.#source = source;
    this.#start = start;
    this.#end = end;
    this.#dataStart = dataStart;
    this.#dataEnd = dataEnd;
    this.#idStart = idStart;
    this.#idEnd = idEnd;
    this.#data = data;
  }

  get kind(): "data" | "empty" {
    return this.#dataEnd > this.#dataStart ? "data" : "empty";
  }

  get data(): Buffer {
    this.#data ??= this.#source.subarray(this.#start + this.#dataStart, this.#start + this.#dataEnd);
    return this.#data;
  }

  get id(): string | undefined {
    if (this.#idStart < 0) return undefined;
    return this.#source.toString("utf8", this.#start + this.#idStart, this.#start + this.#idEnd);
  }

  get raw(): Buffer {
    return this.#source.subarray(this.#start, this.#end);
  }
}

/** Whether the line `source[start, end)` is the field `name`; WHATWG compares names literally. */
export function isSseField(name: string, source: Buffer, start: number, end: number): boolean {
  const after = start + name.length;
  if (after > end || (after < end && source[after] !== COLON)) return false;
  for (let i = 0; i < name.length; i += 1) if (source[start + i] !== name.charCodeAt(i)) return false;
  return true;
}

/** Behind the colon and one optional space; a line without a colon has an empty value. */
function valueStart(name: string, source: Buffer, start: number, end: number): number {
  const colon = start + name.length;
  if (colon === end) return end;
  return colon + 1 < end && source[colon + 1] === SPACE ? colon + 2 : colon + 1;
}

/** ASCII digits and nothing else; at most the largest safe integer. */
function digitsOf(source: Buffer, start: number, end: number): number | undefined {
  if (start === end) return undefined;
  let value = 0;
  for (let i = start; i < end; i += 1) {
    const digit = (source[i] ?? 0) - ZERO;
    if (digit < 0 || digit > 9) return undefined;
    value = Math.min(value * 10 + digit, Number.MAX_SAFE_INTEGER);
  }
  return value;
}

/** Joins pieces of `source` by LF. */
function joinLines(source: Buffer, base: number, bounds: readonly number[]): Buffer {
  let length = Math.max(bounds.length / 2 - 1, 0);
  for (let i = 0; i < bounds.length; i += 2) length += (bounds[i + 1] ?? 0) - (bounds[i] ?? 0);
  const joined = Buffer.allocUnsafe(length);
  let at = 0;
  for (let i = 0; i < bounds.length; i += 2) {
    if (i > 0) {
      joined[at] = LF;
      at += 1;
    }
    at += source.copy(joined, at, base + (bounds[i] ?? 0), base + (bounds[i + 1] ?? 0));
  }
  return joined;
}

/** One block of an event stream that carries a `data` or an `id` field. */
export interface SseEvent {
  /** `empty` is a priming event or a bare id: `data` has no bytes and is never to be read as JSON. */
  readonly kind: "data" | "empty";
  /** The data lines joined by LF; a single line is the very bytes that came in, where one chunk held them. */
  readonly data: Buffer;
  /** The id that this block set; "" resets the last one. */
  readonly id: string | undefined;
  /** The event type as written; undefined stands for the default, `message`. */
  readonly event: string | undefined;
  /** The reconnection time that this block set, in milliseconds. */
  readonly retry: number | undefined;
  /** The block as it came, from its first field through the blank line that ends it, for relaying it unchanged. */
  readonly raw: Buffer;
}

/** An event grew beyond the limit and is skipped to its end; the next one is decoded as usual. */
export interface SseOverflow {
  readonly limit: number;
  /** Bytes of the event when it was given up; more may follow. */
  readonly size: number;
  /** What the event had said about itself by then. */
  readonly id: string | undefined;
  readonly event: string | undefined;
}

/** Whether the stream ended between two events. */
export type SseEnd =
  | { readonly complete: true }
  | {
      readonly complete: false;
      /** Bytes of the unfinished event, which is discarded; line ends count as in the limit. */
      readonly discarded: number;
    };
