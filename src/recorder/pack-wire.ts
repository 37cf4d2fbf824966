import { ByteWriter } from "./bytes.ts";
import type { Frame, FrameContext } from "./contract.ts";
import { formatContext, type ContextWriter } from "./pack-context.ts";
import { writePack, type FramePack } from "./pack.ts";

/**
 * Packs as they go to a thread: their contents in one piece and a list of numbers, which cost next to nothing to hand
 * over, where copies of many small values would cost as much as writing them.
 */
export interface PackWire {
  readonly bytes: Uint8Array<SharedArrayBuffer>;
  /** For each pack its first and last number, its frames, which context it has from one on, where it begins, and its size. */
  readonly packs: Uint32Array;
  /** Each once: most packs have the same. */
  readonly contexts: readonly string[];
}

const perPack = 6;

/** How many packs there are. */
export function packsIn({ packs }: PackWire): number {
  return packs.length / perPack;
}

type Outline = readonly [number, number, number, number, number, number];

/** Puts packs together to be handed over, as they come. */
export interface WireWriter {
  /** Bytes so far. */
  readonly size: number;
  add(frames: readonly Frame[]): void;
  /** Everything since the last time, in the order of first frames. */
  take(): PackWire;
  /** Takes back what was handed over and is needed no more. */
  giveBack(wire: PackWire): void;
}

/** Makes a writer of packs. */
export function createWireWriter(writeContext: ContextWriter = formatContext): WireWriter {
  const writer = new ByteWriter();
  let outlines: Outline[] = [];
  let contexts: string[] = [];
  let places = new Map<FrameContext, number>();

  function placeOf(context: FrameContext): number {
    let place = places.get(context);
    if (place === undefined) {
      place = contexts.push(writeContext(context));
      places.set(context, place);
    }
    return place;
  }

  return {
    get size() {
      return writer.size;
    },
    add: (frames) => {
      const start = writer.size;
      const { first, last, context } = writePack(frames, writer);
      const place = context === undefined ? 0 : placeOf(context);
      outlines.push([first, last, frames.length, place, start, writer.size - start]);
    },
    take: () => {
      const taken = { bytes: writer.take(), packs: listOf(outlines), contexts };
      outlines = [];
      contexts = [];
      places = new Map();
      return taken;
    },
    giveBack: ({ bytes }) => {
      writer.giveBack(bytes);
    },
  };
}

function listOf(outlines: readonly Outline[]): Uint32Array {
  const list = new Uint32Array(outlines.length * perPack);
  let at = 0;
  for (const outline of outlines.toSorted(([one], [other]) => one - other)) {
    list.set(outline, at);
    at += perPack;
  }
  return list;
}

/** Takes packs apart that were handed over; their contents stay where they are. */
export function fromWire({ bytes, packs, contexts }: PackWire): FramePack[] {
  const taken: FramePack[] = [];
  for (let at = 0; at < packs.length; at += perPack) {
    const start = packs[at + 4] ?? 0;
    taken.push({
      first: packs[at] ?? 0,
      last: packs[at + 1] ?? 0,
      count: packs[at + 2] ?? 0,
      context: contexts[(packs[at + 3] ?? 0) - 1] ?? "",
      content: bytes.subarray(start, start + (packs[at + 5] ?? 0)),
    });
  }
  return taken;
}
