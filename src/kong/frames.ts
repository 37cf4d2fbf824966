import { Encoder } from "@msgpack/msgpack";

const initialCapacity = 4096;
const nothing = new Uint8Array(0);

/**
 * Makes a reader. It looks at each header byte once and skips strings and binaries, so its cost grows linearly with the
 * size, however many chunks there are. Needed by bench kong: "a 60 MB body, longest wait of other requests".
 */
export function createFrameReader() {
  /** Bytes of the incomplete value. */
  let held = nothing;
  let length = 0;
  /** Where the next header starts; may be beyond the received bytes. */
  let at = 0;
  /** Nested values that are still missing. */
  let open = 1;

  /** Moves to the end of the frame as far as possible; returns whether the frame is complete. */
  function advance(bytes: Uint8Array, end: number): boolean {
    while (open > 0) {
      const size = headerSize(bytes[at]);
      if (at + size > end) return false;
      const { skip, values } = shapeAt(bytes, at);
      at += size + skip;
      open += values - 1;
    }
    return at <= end;
  }

  function restart(): void {
    at = 0;
    open = 1;
  }

  /** Buffers an incomplete frame; the buffer doubles, or grows to the announced size. */
  function hold(rest: Uint8Array): void {
    const needed = Math.max(length + rest.length, at);
    if (needed > held.length) {
      const grown = new Uint8Array(Math.max(needed, held.length * 2, initialCapacity));
      grown.set(held.subarray(0, length));
      held = grown;
    }
    held.set(rest, length);
    length += rest.length;
  }

  return {
    /** Adds a chunk; returns the bytes of each value that is complete now. Throws on bytes that are not MessagePack. */
    push(chunk: Uint8Array): readonly Uint8Array[] {
      const frames: Uint8Array[] = [];
      let rest = chunk;
      if (length > 0) {
        hold(chunk);
        if (!advance(held, length)) return frames;
        frames.push(held.subarray(0, at));
        rest = held.subarray(at, length);
        // The frame keeps this buffer; the reader starts with a new one.
        held = nothing;
        length = 0;
        restart();
      }
      while (rest.length > 0) {
        if (!advance(rest, rest.length)) {
          hold(rest);
          return frames;
        }
        // Usually a chunk is one frame, because Kong sends a call and waits.
        frames.push(at === rest.length ? rest : rest.subarray(0, at));
        rest = at === rest.length ? nothing : rest.subarray(at);
        restart();
      }
      return frames;
    },
  };
}

/** The size of a header, including the payload of fixed-size numbers. */
function headerSize(first: number | undefined): number {
  if (first === undefined || first < 0xc0 || first >= 0xe0) return 1;
  // Index 0 is 0xc0. MessagePack specification, "Formats"; 0xc1 is never used.
  const size = sizes[first - 0xc0] ?? 0;
  if (size === 0) throw new Error("0xc1 is not valid MessagePack");
  return size;
}

// prettier-ignore
const sizes = [
  1, 0, 1, 1, // nil, (never used), false, true
  2, 3, 5, // bin 8, 16, 32
  3, 4, 6, // ext 8, 16, 32 with their type
  5, 9, // float 32, 64
  2, 3, 5, 9, // uint 8, 16, 32, 64
  2, 3, 5, 9, // int 8, 16, 32, 64
  3, 4, 6, 10, 18, // fixext 1, 2, 4, 8, 16
  2, 3, 5, // str 8, 16, 32
  3, 5, // array 16, 32
  3, 5, // map 16, 32
];

/** What follows a header: payload bytes and nested values. */
function shapeAt(bytes: Uint8Array, at: number): { readonly skip: number; readonly values: number } {
  const first = bytes[at] ?? 0;
  if (first < 0x80 || first >= 0xe0) return leaf;
  if (first < 0x90) return { skip: 0, values: (first & 0x0f) * 2 };
  if (first < 0xa0) return { skip: 0, values: first & 0x0f };
  if (first < 0xc0) return { skip: first & 0x1f, values: 0 };
  switch (first) {
    case 0xc4:
    case 0xc7:
    case 0xd9:
      return { skip: unsigned(bytes, at, 1), values: 0 };
    case 0xc5:
    case 0xc8:
    case 0xda:
      return { skip: unsigned(bytes, at, 2), values: 0 };
    case 0xc6:
    case 0xc9:
    case 0xdb:
      return { skip: unsigned(bytes, at, 4), values: 0 };
    case 0xdc:
      return { skip: 0, values: unsigned(bytes, at, 2) };
    case 0xdd:
      return { skip: 0, values: unsigned(bytes, at, 4) };
    case 0xde:
      return { skip: 0, values: unsigned(bytes, at, 2) * 2 };
    case 0xdf:
      return { skip: 0, values: unsigned(bytes, at, 4) * 2 };
    default:
      return leaf;
  }
}

const leaf = { skip: 0, values: 0 } as const;

/** The big-endian number in the `width` bytes after `at`. */
function unsigned(bytes: Uint8Array, at: number, width: number): number {
  let value = 0;
  for (let index = 1; index <= width; index++) value = value * 256 + (bytes[at + index] ?? 0);
  return value;
}

/** A call that Kong makes: `[0, id, method, [argument]]`. */
export interface RpcCall {
  readonly id: number;
  /** Without the `plugin.` in front. */
  readonly method: string;
  readonly argument: unknown;
}

/** The answer to a call. Kong searches the text of errors, so an error is always a string. */
export type RpcOutcome = { readonly result: unknown } | { readonly error: string };

const kinds = { call: 0, reply: 1, notification: 2 } as const;
const prefix = "plugin.";

const encoder = new Encoder();

/** More levels than Kong ever sends. */
const maxDepth = 64;

/**
 * Reads the value of a frame. Member names are header names that clients and upstreams choose: a decoder that refuses
 * one, such as `__proto__`, would end the connection, and Kong would let the request pass.
 */
function decodeFrame(frame: Uint8Array): unknown {
  const bytes = Buffer.from(frame.buffer, frame.byteOffset, frame.byteLength);
  let at = 0;
  return value(0);

  function value(depth: number): unknown {
    if (depth > maxDepth) throw new Error(`a value nests deeper than ${maxDepth} levels`);
    const first = bytes[at] ?? 0xc1;
    const size = headerSize(first);
    const { skip, values } = shapeAt(bytes, at);
    const start = at + size;
    const end = start + skip;
    if (end > bytes.length) throw new Error("a value is cut off");
    at = end;
    if (isString(first)) return bytes.toString("utf8", start, end);
    if (isMapHeader(first)) return members(values / 2, depth);
    if (isArrayHeader(first)) return Array.from({ length: values }, () => value(depth + 1));
    if (first >= 0xc4 && first <= 0xc6) return bytes.subarray(start, end);
    return scalar(first, start - size + 1);
  }

  function members(count: number, depth: number): Readonly<Record<string, unknown>> {
    // Without a prototype, `__proto__` is an ordinary member.
    const map = Object.create(null) as Record<string, unknown>;
    for (let left = count; left > 0; left--) {
      const name = String(value(depth + 1));
      map[name] = value(depth + 1);
    }
    return map;
  }

  function scalar(first: number, start: number): unknown {
    if (first < 0x80) return first;
    if (first >= 0xe0) return first - 0x100;
    const read = scalars[first];
    if (read === undefined) throw new Error(`0x${first.toString(16)} is a type that Kong does not send`);
    return read(bytes, start);
  }
}

const scalars: Readonly<Record<number, (bytes: Buffer, at: number) => unknown>> = {
  0xc0: () => null,
  0xc2: () => false,
  0xc3: () => true,
  0xca: (bytes, at) => bytes.readFloatBE(at),
  0xcb: (bytes, at) => bytes.readDoubleBE(at),
  0xcc: (bytes, at) => bytes.readUInt8(at),
  0xcd: (bytes, at) => bytes.readUInt16BE(at),
  0xce: (bytes, at) => bytes.readUInt32BE(at),
  0xcf: (bytes, at) => Number(bytes.readBigUInt64BE(at)),
  0xd0: (bytes, at) => bytes.readInt8(at),
  0xd1: (bytes, at) => bytes.readInt16BE(at),
  0xd2: (bytes, at) => bytes.readInt32BE(at),
  0xd3: (bytes, at) => Number(bytes.readBigInt64BE(at)),
};

function isString(first: number): boolean {
  return (first >= 0xa0 && first < 0xc0) || (first >= 0xd9 && first <= 0xdb);
}

function isMapHeader(first: number): boolean {
  return (first >= 0x80 && first < 0x90) || first === 0xde || first === 0xdf;
}

function isArrayHeader(first: number): boolean {
  return (first >= 0x90 && first < 0xa0) || first === 0xdc || first === 0xdd;
}

/** Reads one frame as a call; throws if it is not one, because the stream is then out of sync. */
export function parseCall(frame: Uint8Array): RpcCall {
  const message = decodeFrame(frame);
  if (!Array.isArray(message)) throw new Error("a call must be an array");
  const [kind, id, method, args] = message as readonly unknown[];
  if (kind !== kinds.call || typeof id !== "number" || typeof method !== "string") {
    throw new Error("a call must be [0, id, method, arguments]");
  }
  return {
    id,
    method: method.startsWith(prefix) ? method.slice(prefix.length) : method,
    argument: Array.isArray(args) ? (args as readonly unknown[])[0] : undefined,
  };
}

/** The bytes of a reply: `[1, id, error, result]`. */
export function formatReply(id: number, outcome: RpcOutcome): Uint8Array {
  // A copy, because the encoder reuses its buffer for the next reply.
  return Buffer.from(encoder.encodeSharedRef(replyOf(id, outcome)));
}

function replyOf(id: number, outcome: RpcOutcome): readonly unknown[] {
  return "error" in outcome ? [kinds.reply, id, outcome.error, null] : [kinds.reply, id, null, outcome.result ?? null];
}

/** Tells Kong the process id; when it changes, Kong forgets its instances. */
export function formatServerPid(pid: number): Uint8Array {
  return encoder.encode([kinds.notification, "serverPid", pid]);
}

/** Whether a decoded value is a map. */
export function isMap(value: unknown): value is Readonly<Record<string, unknown>> {
  return typeof value === "object" && value !== null && !Array.isArray(value) && !(value instanceof Uint8Array);
}
