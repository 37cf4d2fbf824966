/** Cuts a stream of bytes into whole MessagePack values, however the stream was cut on its way. */
export interface FrameReader {
  /** Takes more bytes; answers the values that are whole now, each as its own bytes. Throws where no value can begin. */
  push(chunk: Uint8Array): readonly Uint8Array[];
}

const initialCapacity = 4096;
const nothing = new Uint8Array(0);

/**
 * A reader that looks at every byte of structure once and at none inside of strings and binaries, so that the cost of a
 * body of many chunks grows with its size and no faster. What is inside a value is left to the MessagePack library.
 */
export function createFrameReader(): FrameReader {
  /** Bytes of the value that is not whole yet. */
  let held = nothing;
  let length = 0;
  /** Where the next header stands, which may be beyond the bytes that have come. */
  let at = 0;
  /** Values that have to end before the frame does. */
  let open = 1;

  /** Goes on to the end of the frame, or as far as the bytes go; says whether the frame is whole. */
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

  /** Keeps bytes that are no whole frame; room grows by doubling, or to what a header has announced. */
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
    push(chunk) {
      const frames: Uint8Array[] = [];
      let rest = chunk;
      if (length > 0) {
        hold(chunk);
        if (!advance(held, length)) return frames;
        frames.push(held.subarray(0, at));
        rest = held.subarray(at, length);
        // What was held belongs to the frame now; the reader begins anew with room of its own.
        held = nothing;
        length = 0;
        restart();
      }
      while (rest.length > 0) {
        if (!advance(rest, rest.length)) {
          hold(rest);
          return frames;
        }
        // Nearly always a chunk is one frame: Kong sends a call and waits.
        frames.push(at === rest.length ? rest : rest.subarray(0, at));
        rest = at === rest.length ? nothing : rest.subarray(at);
        restart();
      }
      return frames;
    },
  };
}

/** How many bytes tell the type and the size of a value; the payload of fixed-size numbers counts as header. */
function headerSize(first: number | undefined): number {
  if (first === undefined || first < 0xc0 || first >= 0xe0) return 1;
  // Index 0 is 0xc0. MessagePack specification, "Formats"; 0xc1 is never used.
  const size = sizes[first - 0xc0] ?? 0;
  if (size === 0) throw new Error("0xc1 is no MessagePack");
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

/** What follows a header: bytes that are payload, and values that belong to it. */
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

/** The big-endian number of `width` bytes that follows the byte at `at`. */
function unsigned(bytes: Uint8Array, at: number, width: number): number {
  let value = 0;
  for (let index = 1; index <= width; index++) value = value * 256 + (bytes[at + index] ?? 0);
  return value;
}
