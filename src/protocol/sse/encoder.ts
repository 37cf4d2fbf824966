/** The fields of an event to write. */
export interface SseEventInput {
  /** The event type; receivers take an event without one for a `message`. */
  readonly event?: string | undefined;
  readonly id?: string | undefined;
  /** Reconnection time in milliseconds. */
  readonly retry?: number | undefined;
  /** Each line becomes a data line. Receivers join them by LF, so CR and CR LF are not preserved. */
  readonly data: Buffer | string;
}

/** The bytes of an event, or the field that cannot be written. */
export type SseEncoding =
  | { readonly ok: true; readonly bytes: Buffer }
  | { readonly ok: false; readonly field: "event" | "id" | "retry"; readonly message: string };

const LF = 0x0a;
const CR = 0x0d;
const dataName = Buffer.from("data: ");
const lineFeed = Buffer.from("\n");
const noHead = Buffer.alloc(0);
const messageHead = Buffer.from("event: message\n");

/**
 * Writes one event. Fails for an event type or id with CR, LF or lone surrogates, an id with NUL, and a `retry` that is
 * not an integer: receivers would not read these back.
 *
 * @example
 * encodeSseEvent({ id: "7", data: '{"jsonrpc":"2.0","method":"ping"}' }); // { ok: true, bytes: … }
 */
export function encodeSseEvent(input: SseEventInput): SseEncoding {
  const { event, id, retry } = input;
  let head = "";
  if (event !== undefined && event !== "") {
    if (!isOneLine(event)) return refuse("event", "an event type must be one line of valid Unicode");
    head += `event: ${event}\n`;
  }
  if (id !== undefined) {
    if (!isOneLine(id) || id.includes("\0")) {
      return refuse("id", "an event id must be one line of valid Unicode without NUL");
    }
    head += `id: ${id}\n`;
  }
  if (retry !== undefined) {
    if (!Number.isSafeInteger(retry) || retry < 0) {
      return refuse("retry", "a reconnection time must be a non-negative integer of milliseconds");
    }
    head += `retry: ${retry}\n`;
  }
  return { ok: true, bytes: withData(head === "" ? noHead : Buffer.from(head), toBytes(input.data)) };
}

/** Writes a JSON-RPC message as an event of type `message` without an id (MCP 2026-07-28, Streamable HTTP). */
export function encodeSseMessage(message: Buffer): Buffer {
  return withData(messageHead, message);
}

/** Writes the event that makes a stream resumable: an id and empty data (MCP 2025-11-25, Streamable HTTP). */
export function encodePrimingEvent(id: string, retry?: number): SseEncoding {
  return encodeSseEvent({ id, retry, data: "" });
}

/** Writes `data` as data lines that end with `lineEnd`. */
export function encodeDataLines(data: Buffer, lineEnd: Buffer): Buffer {
  const bounds = lineBounds(data);
  let size = (bounds.length / 2) * (dataName.length + lineEnd.length);
  for (let i = 0; i < bounds.length; i += 2) size += (bounds[i + 1] ?? 0) - (bounds[i] ?? 0);
  const lines = Buffer.allocUnsafe(size);
  let at = 0;
  for (let i = 0; i < bounds.length; i += 2) {
    at += dataName.copy(lines, at);
    at += data.copy(lines, at, bounds[i], bounds[i + 1]);
    at += lineEnd.copy(lines, at);
  }
  return lines;
}

/** Start and end of each line, as a flat list. The last line has no line end and may be empty. */
export function lineBounds(bytes: Buffer): number[] {
  const bounds = [0];
  for (let i = 0; i < bytes.length; i++) {
    const byte = bytes[i];
    if (byte !== LF && byte !== CR) continue;
    bounds.push(i);
    if (byte === CR && bytes[i + 1] === LF) i++;
    bounds.push(i + 1);
  }
  bounds.push(bytes.length);
  return bounds;
}

function withData(head: Buffer, data: Buffer): Buffer {
  if (data.includes(LF) || data.includes(CR)) return Buffer.concat([head, encodeDataLines(data, lineFeed), lineFeed]);
  const start = head.length + dataName.length;
  const bytes = Buffer.allocUnsafe(start + data.length + 2);
  bytes.set(head, 0);
  bytes.set(dataName, head.length);
  bytes.set(data, start);
  bytes[bytes.length - 2] = LF;
  bytes[bytes.length - 1] = LF;
  return bytes;
}

function toBytes(data: Buffer | string): Buffer {
  return typeof data === "string" ? Buffer.from(data) : data;
}

function isOneLine(text: string): boolean {
  return text.isWellFormed() && !/[\r\n]/.test(text);
}

function refuse(field: "event" | "id" | "retry", message: string): SseEncoding {
  return { ok: false, field, message };
}
