/** The next line ends of a chunk. A find is kept until passed, so each byte is searched once for each kind of end. */
export interface LineEnds {
  lineFeed: number;
  carriageReturn: number;
}

const LF = 0x0a;
const CR = 0x0d;

/** Makes `ends` those of `chunk` from `at` on. */
export function seekLineEnds(ends: LineEnds, chunk: Buffer, at: number): void {
  ends.lineFeed = chunk.indexOf(LF, at);
  ends.carriageReturn = chunk.indexOf(CR, at);
}

/** The first LF at or behind `at`, or -1; `at` never goes back. */
export function nextLineFeed(ends: LineEnds, chunk: Buffer, at: number): number {
  if (ends.lineFeed !== -1 && ends.lineFeed < at) ends.lineFeed = chunk[at] === LF ? at : chunk.indexOf(LF, at);
  return ends.lineFeed;
}

/** The first CR at or behind `at`, or -1; `at` never goes back. */
export function nextCarriageReturn(ends: LineEnds, chunk: Buffer, at: number): number {
  if (ends.carriageReturn !== -1 && ends.carriageReturn < at) ends.carriageReturn = chunk.indexOf(CR, at);
  return ends.carriageReturn;
}

/** Start and end of each line of `bytes`, flat; the last line has no end mark and may be empty. */
export function lineBounds(bytes: Buffer): number[] {
  const ends: LineEnds = { lineFeed: -1, carriageReturn: -1 };
  const bounds: number[] = [];
  let at = 0;
  seekLineEnds(ends, bytes, at);
  for (;;) {
    const lineFeed = nextLineFeed(ends, bytes, at);
    const carriageReturn = nextCarriageReturn(ends, bytes, at);
    if (carriageReturn !== -1 && (lineFeed === -1 || carriageReturn < lineFeed)) {
      bounds.push(at, carriageReturn);
      at = carriageReturn + 1 === lineFeed ? carriageReturn + 2 : carriageReturn + 1;
    } else if (lineFeed !== -1) {
      bounds.push(at, lineFeed);
      at = lineFeed + 1;
    } else {
      bounds.push(at, bytes.length);
      return bounds;
    }
  }
}
