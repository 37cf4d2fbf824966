const nothing = Buffer.alloc(0);
/** Smaller pieces are copied at once: a view costs a hundred bytes and pins the whole chunk behind it. */
const smallestPiece = 1024;
/** Room for what usually follows, so that an event of common size is held without growing. */
const slack = 512;

/**
 * Bytes kept from one chunk to the next. Its cost stays linear, however small or many the pieces are. A class, because
 * every open stream has one.
 */
export class ByteBuffer {
  #store: Buffer = nothing;
  #stored = 0;
  /** Pieces that stand behind the stored bytes and are not copied yet. */
  #pieces: Buffer[] | undefined;
  #used = 0;

  /** How many bytes are held. */
  get size(): number {
    return this.#used;
  }

  /** Puts `source[from, to)` behind what is held; `source` must not change as long as it is held. */
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

  /** The held bytes in one piece, good until the next `append`. */
  bytes(): Buffer {
    this.#gather();
    return this.#store.subarray(0, this.#used);
  }

  /** Gives the held bytes away and holds nothing afterwards. */
  take(): Buffer {
    const taken = this.bytes();
    this.clear();
    return taken;
  }

  /** Drops the held bytes. */
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
