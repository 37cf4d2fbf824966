const nothing = Buffer.alloc(0);
/** Smaller pieces are copied at once: a view takes a hundred bytes and keeps its whole chunk in memory. */
const smallestPiece = 1024;
/** Extra room, so that an event of common size fits without growing. */
const slack = 512;

/** Bytes that are kept from one chunk to the next, at linear cost for any number of pieces. Every open stream has one. */
export class ByteBuffer {
  #store: Buffer = nothing;
  #stored = 0;
  /** Pieces after the stored bytes that are not copied yet. */
  #pieces: Buffer[] | undefined;
  #used = 0;

  /** The number of bytes in the buffer. */
  get size(): number {
    return this.#used;
  }

  /** Appends `source[from, to)`. `source` must not change while it is buffered. */
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

  /** All bytes in one piece, valid until the next `append`. */
  bytes(): Buffer {
    this.#gather();
    return this.#store.subarray(0, this.#used);
  }

  /** Returns all bytes and empties the buffer. */
  take(): Buffer {
    const taken = this.bytes();
    this.clear();
    return taken;
  }

  /** Empties the buffer. */
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
