/** Bytes kept from one chunk to the next. Its cost stays linear, however small or many the pieces are. */
export interface ByteHold {
  /** How many bytes are held. */
  size(): number;
  /** Puts `source[from, to)` behind what is held; `source` must not change as long as it is held. */
  append(source: Buffer, from: number, to: number): void;
  /** The held bytes in one piece, good until the next `append`. */
  bytes(): Buffer;
  /** Gives the held bytes away and holds nothing afterwards. */
  take(): Buffer;
  /** Drops the held bytes. */
  clear(): void;
}

const nothing = Buffer.alloc(0);
/** Smaller pieces are copied at once: a view costs a hundred bytes and pins the whole chunk behind it. */
const smallestPiece = 1024;
/** Room for what usually follows, so that an event of common size is held without growing. */
const slack = 512;

/** Makes an empty hold. */
export function createByteHold(): ByteHold {
  let store: Buffer = nothing;
  let stored = 0;
  /** Pieces that stand behind the stored bytes and are not copied yet. */
  let pieces: Buffer[] = [];
  let used = 0;

  function reserve(total: number): void {
    if (total <= store.length) return;
    const larger = Buffer.allocUnsafe(Math.max(total + slack, store.length * 2));
    store.copy(larger, 0, 0, stored);
    store = larger;
  }

  function gather(): void {
    if (pieces.length === 0) return;
    reserve(used);
    for (const piece of pieces) stored += piece.copy(store, stored);
    pieces = [];
  }

  function clear(): void {
    store = nothing;
    stored = 0;
    pieces = [];
    used = 0;
  }

  return {
    size: () => used,
    append(source, from, to) {
      if (from === to) return;
      used += to - from;
      if (to - from >= smallestPiece) {
        pieces.push(source.subarray(from, to));
        return;
      }
      reserve(used);
      gather();
      stored += source.copy(store, stored, from, to);
    },
    bytes() {
      gather();
      return store.subarray(0, used);
    },
    take() {
      gather();
      const taken = store.subarray(0, used);
      clear();
      return taken;
    },
    clear,
  };
}
