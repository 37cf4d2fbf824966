/** A Lua string that goes out as MessagePack binary, as Kong sends bodies. */
export class LuaBinary {
  readonly bytes: Buffer;

  constructor(bytes: Buffer) {
    this.bytes = bytes;
  }
}

/** An empty Lua table that is to arrive as a map. */
export const emptyMap = Symbol("empty map");

/**
 * Packs a value as Kong's MessagePack library does: strings never in the 8-bit form, empty tables as lists, members
 * without a value left out, bytes only where a LuaBinary says so. Written apart from the library under test.
 */
export function luaPack(value: unknown): Buffer {
  if (value === emptyMap) return Buffer.from([0x80]);
  if (value === null || value === undefined) return Buffer.from([0xc0]);
  if (typeof value === "boolean") return Buffer.from([value ? 0xc3 : 0xc2]);
  if (typeof value === "number") return packNumber(value);
  if (typeof value === "string") return packString(Buffer.from(value));
  if (value instanceof LuaBinary) return packBinary(value.bytes);
  // A Lua string holds any bytes; this is how text that is no UTF-8 comes.
  if (Buffer.isBuffer(value)) return packString(value);
  if (Array.isArray(value)) return sized(value.length, 0x90, [0xdc, 0xdd], value.map(luaPack));
  const entries = Object.entries(value).filter(([, member]) => member !== undefined);
  if (entries.length === 0) return Buffer.from([0x90]);
  return sized(
    entries.length,
    0x80,
    [0xde, 0xdf],
    entries.flatMap(([name, member]) => [luaPack(name), luaPack(member)]),
  );
}

function packNumber(value: number): Buffer {
  if (!Number.isInteger(value)) {
    const bytes = Buffer.alloc(9, 0xcb);
    bytes.writeDoubleBE(value, 1);
    return bytes;
  }
  if (value < 0) {
    const bytes = Buffer.alloc(5, 0xd2);
    bytes.writeInt32BE(value, 1);
    return bytes;
  }
  if (value < 0x80) return Buffer.from([value]);
  if (value < 0x100) return Buffer.from([0xcc, value]);
  if (value < 0x1_0000) return Buffer.from([0xcd, value >> 8, value & 0xff]);
  const wide = value >= 0x1_0000_0000;
  const bytes = Buffer.alloc(wide ? 9 : 5, wide ? 0xcf : 0xce);
  if (wide) bytes.writeBigUInt64BE(BigInt(value), 1);
  else bytes.writeUInt32BE(value, 1);
  return bytes;
}

function packString(bytes: Buffer): Buffer {
  if (bytes.length < 32) return Buffer.concat([Buffer.from([0xa0 | bytes.length]), bytes]);
  return Buffer.concat([lengthHeader(bytes.length, 0xda, 0xdb), bytes]);
}

function packBinary(bytes: Buffer): Buffer {
  if (bytes.length < 0x100) return Buffer.concat([Buffer.from([0xc4, bytes.length]), bytes]);
  return Buffer.concat([lengthHeader(bytes.length, 0xc5, 0xc6), bytes]);
}

function sized(count: number, short: number, long: readonly [number, number], parts: readonly Buffer[]): Buffer {
  const header = count < 16 ? Buffer.from([short | count]) : lengthHeader(count, ...long);
  return Buffer.concat([header, ...parts]);
}

function lengthHeader(length: number, code16: number, code32: number): Buffer {
  if (length < 0x1_0000) return Buffer.from([code16, length >> 8, length & 0xff]);
  const header = Buffer.alloc(5, code32);
  header.writeUInt32BE(length, 1);
  return header;
}
