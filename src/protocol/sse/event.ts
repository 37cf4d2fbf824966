/** The fields of one block so far. Positions count from the first byte of the block, because it may move. */
export interface SseBlock {
  /** Whether a field was read; comments before the first field belong to no block. */
  open: boolean;
  /** Bytes of the complete lines, each line end counted as one. */
  size: number;
  /** The position of the id; -1 without one. */
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

/** Makes an empty block. */
export function createSseBlock(): SseBlock {
  return { open: false, size: 0, idStart: -1, idEnd: -1, event: undefined, retry: undefined, data: [] };
}

/**
 * Reads the line `source[start, end)` of the block at `base` and returns the field that it set: undefined for an unknown
 * name, an id with NUL or a retry that is not a number (WHATWG HTML, "Interpreting an event stream").
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

/** The id of the block at `base`. */
export function sseBlockId(block: SseBlock, source: Buffer, base: number): string | undefined {
  return block.idStart < 0 ? undefined : source.toString("utf8", base + block.idStart, base + block.idEnd);
}

/** The event of the block `source[base, next)`; undefined if it has neither data nor id. */
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
 * An event as positions in `source`, counted from `start`. Views and id are created on demand, because each costs as
 * much as the rest of decoding a small event. Needed by bench sse: "SSE, 200 B events".
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

/** Whether the line `source[start, end)` is the field `name`. */
export function isSseField(name: string, source: Buffer, start: number, end: number): boolean {
  const after = start + name.length;
  if (after > end || (after < end && source[after] !== COLON)) return false;
  for (let i = 0; i < name.length; i += 1) if (source[start + i] !== name.charCodeAt(i)) return false;
  return true;
}

/** The offset after the colon and one optional space; a line without a colon has an empty value. */
function valueStart(name: string, source: Buffer, start: number, end: number): number {
  const colon = start + name.length;
  if (colon === end) return end;
  return colon + 1 < end && source[colon + 1] === SPACE ? colon + 2 : colon + 1;
}

/** The value of a line of ASCII digits, at most the largest safe integer. */
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

/** Joins lines of `source` by LF. */
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

/** An event of an event stream: a block with a `data` or an `id` field. */
export interface SseEvent {
  /** `empty` is a priming event or a bare id; its `data` has no bytes and must not be parsed. */
  readonly kind: "data" | "empty";
  /** The data lines joined by LF. */
  readonly data: Buffer;
  /** The id of this event; "" resets the last event id. */
  readonly id: string | undefined;
  /** The event type; undefined means the default, `message`. */
  readonly event: string | undefined;
  /** The reconnection time in milliseconds. */
  readonly retry: number | undefined;
  /** The source bytes, from the first field through the blank line at the end. */
  readonly raw: Buffer;
}

/** An event over the limit. It is skipped to its end. */
export interface SseOverflow {
  readonly limit: number;
  /** Bytes of the event so far; more may follow. */
  readonly size: number;
  /** The id, if it came before the limit was reached. */
  readonly id: string | undefined;
  readonly event: string | undefined;
}

/** Whether the stream ended after a complete event. */
export type SseEnd =
  | { readonly complete: true }
  | {
      readonly complete: false;
      /** Bytes of the unfinished event, which is discarded. */
      readonly discarded: number;
    };
