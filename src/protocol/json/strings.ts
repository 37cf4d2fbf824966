// Needed by bench parse: "1 MB, one long string / escaped text / small objects".

/** What one scan has found out about its bytes. */
export interface StringScanState {
  /** Offset of the next quote or backslash, if searched for ahead of the scan, or -1. */
  quote: number;
  backslash: number;
  loneSurrogateAt: number;
}

const stops = new Uint8Array(256);
stops.fill(1, 0, 0x20);
stops[0x22] = 1;
stops[0x5c] = 1;

const escapes = new Uint8Array(256);
for (const letter of '"\\/bfnrt') escapes[letter.charCodeAt(0)] = 1;

/** Most strings are shorter than this and are scanned byte by byte. */
const shortRun = 48;
/** A run without quote or backslash of this length is worth two native searches. */
const longRun = 512;
const pieceLength = 4096;

/** Checks a JSON string from after its opening quote; returns its end, or `-1 - offset` of the error. */
export function scanString(bytes: Uint8Array, from: number, end: number, notes: StringScanState): number {
  const near = from + shortRun < end ? from + shortRun : end;
  let i = from;
  while (i < near && stops[bytes[i] ?? 0] === 0) i++;
  return i < near && bytes[i] === 0x22 ? i + 1 : scanLongString(bytes, i, end, notes);
}

/** The same for strings that are long or contain escapes. */
function scanLongString(bytes: Uint8Array, from: number, end: number, notes: StringScanState): number {
  let i = skipLongRun(bytes, from, end, notes);
  // In pieces, so that the inner loop is compiled as a function and not by on-stack replacement.
  while (i >= 0 && i < end) {
    if (bytes[i] === 0x22) return i + 1;
    i = skipPiece(bytes, i, end, notes);
  }
  return i < 0 ? i : -1 - end;
}

/** Continues to the closing quote, or for about one piece. */
function skipPiece(bytes: Uint8Array, from: number, end: number, notes: StringScanState): number {
  const limit = from + pieceLength < end ? from + pieceLength : end;
  let i = from;
  while (i < limit) {
    while (i < limit && stops[bytes[i] ?? 0] === 0) i++;
    const c = bytes[i] ?? 0;
    if (i === limit || c === 0x22) return i;
    if (c !== 0x5c) return -1 - i;
    if (i + 1 < end && escapes[bytes[i + 1] ?? 0] === 1) i += 2;
    else i = scanUnicodeEscape(bytes, i, end, notes);
    if (i < 0) return i;
  }
  return i;
}

/** In a long run the next quote and backslash are found natively; only control characters are left to check. */
function skipLongRun(bytes: Uint8Array, from: number, end: number, notes: StringScanState): number {
  if (notes.quote < from) notes.quote = indexOrEnd(bytes, 0x22, from, end);
  if (notes.quote - from < longRun) return from;
  if (notes.backslash < from) notes.backslash = indexOrEnd(bytes, 0x5c, from, end);
  const stop = notes.quote < notes.backslash ? notes.quote : notes.backslash;
  if (stop - from < longRun) return from;
  const lead = (4 - ((bytes.byteOffset + from) & 3)) & 3;
  for (let i = from; i < from + lead; i++) if ((bytes[i] ?? 0) < 0x20) return i;
  const words = new Int32Array(bytes.buffer, bytes.byteOffset + from + lead, (stop - from - lead) >> 2);
  let index = 0;
  for (; index < words.length; index++) {
    const word = words[index] ?? 0;
    // The well-known test for "has a byte less than n" in four bytes at once.
    if (((word - 0x20202020) & ~word & 0x80808080) !== 0) break;
  }
  return from + lead + index * 4;
}

function indexOrEnd(bytes: Uint8Array, value: number, from: number, end: number): number {
  const index = bytes.indexOf(value, from);
  return index < 0 ? end : index;
}

/** Checks a `\u` escape and returns its end. */
function scanUnicodeEscape(bytes: Uint8Array, at: number, end: number, notes: StringScanState): number {
  const letter = at + 1 < end ? (bytes[at + 1] ?? 0) : 0;
  if (letter !== 0x75) return -1 - (at + 1 < end ? at + 1 : end);
  const unit = codeUnit(bytes, at + 2, end);
  if (unit < 0) return unit;
  if (unit < 0xd800 || unit > 0xdfff) return at + 6;
  if (unit < 0xdc00 && bytes[at + 6] === 0x5c && bytes[at + 7] === 0x75) {
    const second = codeUnit(bytes, at + 8, end);
    if (second < 0) return second;
    if (second >= 0xdc00 && second <= 0xdfff) return at + 12;
  }
  if (notes.loneSurrogateAt < 0) notes.loneSurrogateAt = at;
  return at + 6;
}

function codeUnit(bytes: Uint8Array, from: number, end: number): number {
  let unit = 0;
  for (let i = from; i < from + 4; i++) {
    const digit = i < end ? hexDigit(bytes[i] ?? 0) : -1;
    if (digit < 0) return -1 - (i < end ? i : end);
    unit = unit * 16 + digit;
  }
  return unit;
}

function hexDigit(c: number): number {
  if (c >= 0x30 && c <= 0x39) return c - 0x30;
  const letter = c | 0x20;
  return letter >= 0x61 && letter <= 0x66 ? letter - 0x57 : -1;
}

/** Checks a JSON number; returns its end, or `-1 - offset` of the error. */
export function scanNumber(bytes: Uint8Array, from: number, end: number): number {
  let i = from;
  if (bytes[i] === 0x2d) i++;
  const first = i < end ? (bytes[i] ?? 0) : 0;
  if (first === 0x30) i++;
  else if (first >= 0x31 && first <= 0x39) i = skipDigits(bytes, i + 1, end);
  else return -1 - i;
  if (i < end && bytes[i] === 0x2e) {
    const digits = skipDigits(bytes, i + 1, end);
    if (digits === i + 1) return -1 - digits;
    i = digits;
  }
  if (i < end && ((bytes[i] ?? 0) | 0x20) === 0x65) {
    let exponent = i + 1;
    const sign = exponent < end ? bytes[exponent] : 0;
    if (sign === 0x2b || sign === 0x2d) exponent++;
    const digits = skipDigits(bytes, exponent, end);
    if (digits === exponent) return -1 - digits;
    i = digits;
  }
  return i;
}

function skipDigits(bytes: Uint8Array, from: number, end: number): number {
  let i = from;
  while (i < end) {
    const c = bytes[i] ?? 0;
    if (c < 0x30 || c > 0x39) break;
    i++;
  }
  return i;
}
