// Needed by bench recorder: "recording on against off" and "RSS over recording off".
const bufferSize = 1_048_576;
/** Larger buffers are not kept, and no more than this in all. */
const maxSpareSize = 4_194_304;
const maxSpareBytes = 8_388_608;
/** Strings up to this length are written character by character, which is faster than a native call. */
const maxInlineLength = 64;

/**
 * A growing buffer in memory that threads share, so that it is handed over without a copy. Buffers are reused, also those
 * that have grown: V8 does not count shared memory, so that dropped buffers stay until something else makes it collect.
 */
export class ByteWriter {
  #spare: SharedArrayBuffer[] = [];
  #spareBytes = 0;
  #bytes: Buffer<SharedArrayBuffer>;
  #at = 0;

  constructor(size = bufferSize) {
    this.#bytes = allocateShared(size);
  }

  /** Bytes written so far. */
  get size(): number {
    return this.#at;
  }

  /** A copy of the bytes from an offset on. */
  copyFrom(start: number): Uint8Array {
    return Uint8Array.prototype.slice.call(this.#bytes, start, this.#at);
  }

  /** Hands over everything written, without a copy, and starts a new buffer. */
  take(): Uint8Array<SharedArrayBuffer> {
    const taken = new Uint8Array(this.#bytes.buffer, 0, this.#at);
    this.#bytes = this.#allocate(bufferSize);
    this.#at = 0;
    return taken;
  }

  /** Reuses a buffer that nobody reads any more. */
  recycle({ buffer }: Uint8Array<SharedArrayBuffer>): void {
    const { byteLength } = buffer;
    if (byteLength < bufferSize || byteLength > maxSpareSize || this.#spareBytes + byteLength > maxSpareBytes) return;
    this.#spare.push(buffer);
    this.#spareBytes += byteLength;
  }

  /** Drops everything after an offset. */
  truncate(start: number): void {
    this.#at = start;
  }

  /** A non-negative integer, seven bits per byte. */
  varint(value: number): void {
    this.#reserve(10);
    let left = value;
    for (; left >= 128; left = left > 0x7f_ff_ff_ff ? Math.floor(left / 128) : left >>> 7)
      this.#bytes[this.#at++] = (left % 128) | 128;
    this.#bytes[this.#at++] = left;
  }

  /** An integer. */
  signedVarint(value: number): void {
    this.varint(value < 0 ? -2 * value - 1 : 2 * value);
  }

  double(value: number): void {
    this.#reserve(8);
    this.#at = this.#bytes.writeDoubleLE(value, this.#at);
  }

  /** A string in UTF-8, after its length. */
  string(value: string): void {
    const { length } = value;
    if (length <= maxInlineLength) {
      this.#reserve(length + 1);
      let at = this.#at;
      this.#bytes[at++] = length;
      let index = 0;
      for (; index < length; index++) {
        const unit = value.charCodeAt(index);
        if (unit > 127) break;
        this.#bytes[at++] = unit;
      }
      if (index === length) {
        this.#at = at;
        return;
      }
    }
    const start = this.#at;
    this.varint(length);
    this.#reserve(length * 3);
    const size = this.#bytes.write(value, this.#at, "utf8");
    this.#at += size;
    // Nearly all texts have as many bytes as characters; only others have to be measured first.
    if (size === length) return;
    this.#at = start;
    this.varint(size);
    this.#reserve(size);
    this.#at += this.#bytes.write(value, this.#at, "utf8");
  }

  /** Text that is bytes already; read as a string. */
  block(value: Uint8Array): void {
    this.varint(value.length);
    this.#reserve(value.length);
    this.#bytes.set(value, this.#at);
    this.#at += value.length;
  }

  /** A long string. Its length takes four bytes, so that it need not be measured first. */
  longString(value: string): void {
    this.#reserve(value.length * 3 + 4);
    const size = this.#bytes.write(value, this.#at + 4, "utf8");
    this.#bytes.writeUInt32LE(size, this.#at);
    this.#at += size + 4;
  }

  /** A long string that is bytes already. */
  longBlock(value: Uint8Array): void {
    this.#reserve(value.length + 4);
    this.#bytes.writeUInt32LE(value.length, this.#at);
    this.#bytes.set(value, this.#at + 4);
    this.#at += value.length + 4;
  }

  #reserve(more: number): void {
    const needed = this.#at + more;
    if (needed <= this.#bytes.length) return;
    const outgrown = this.#bytes;
    const grown = this.#allocate(Math.max(needed, outgrown.length * 2));
    outgrown.copy(grown, 0, 0, this.#at);
    this.#bytes = grown;
    this.recycle(outgrown);
  }

  /** A buffer of at least this size. */
  #allocate(size: number): Buffer<SharedArrayBuffer> {
    const index = this.#spare.findIndex(({ byteLength }) => byteLength >= size);
    const [spare] = index < 0 ? [] : this.#spare.splice(index, 1);
    if (spare === undefined) return allocateShared(size);
    this.#spareBytes -= spare.byteLength;
    return Buffer.from(spare);
  }
}

function allocateShared(size: number): Buffer<SharedArrayBuffer> {
  return Buffer.from(new SharedArrayBuffer(size));
}

/** Reads what a `ByteWriter` wrote. */
export class ByteReader {
  readonly #bytes: Buffer;
  #at = 0;

  constructor(bytes: Uint8Array) {
    this.#bytes = Buffer.isBuffer(bytes) ? bytes : Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength);
  }

  varint(): number {
    let value = 0;
    for (let unit = 1; ; unit *= 128) {
      const byte = this.#bytes[this.#at++] ?? 0;
      if (byte < 128) return value + byte * unit;
      value += (byte - 128) * unit;
    }
  }

  signedVarint(): number {
    const value = this.varint();
    return value % 2 === 0 ? value / 2 : -(value + 1) / 2;
  }

  double(): number {
    const value = this.#bytes.readDoubleLE(this.#at);
    this.#at += 8;
    return value;
  }

  string(): string {
    const size = this.varint();
    return this.#bytes.toString("utf8", this.#at, (this.#at += size));
  }

  /** The string, or an empty one if it is skipped. */
  longString(isWanted: boolean): string {
    const size = this.#bytes.readUInt32LE(this.#at);
    this.#at += 4;
    const start = this.#at;
    this.#at += size;
    return isWanted ? this.#bytes.toString("utf8", start, this.#at) : "";
  }
}
