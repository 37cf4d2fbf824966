// Needed by bench recorder: "recording on against off" and "RSS over recording off".
import { type ListItem, UnorderedList } from "../lib/bounded-map.ts";
import { ByteWriter } from "./bytes.ts";
import type { FrameContext } from "./contract.ts";
import { deriveComplete } from "./derive.ts";
import { createOutcomeCache } from "./dimension-cache.ts";
import type { ExchangeOutcome } from "./exchange-fields.ts";
import {
  type CapturedFrame,
  type CompleteExchange,
  type FramePack,
  isStandalone,
  maxPackSpan,
  writePack,
} from "./pack.ts";
import { formatContext } from "./pack-context.ts";

/**
 * Packs as they go to the writer thread: all contents in one shared buffer and all numbers in another. Copying many
 * small values between threads would cost as much as writing them to disk.
 */
export interface PackBuffer {
  readonly bytes: Uint8Array<SharedArrayBuffer>;
  /** For each pack the numbers that {@link offsets} lists. */
  readonly numbers: Float64Array<SharedArrayBuffer>;
  /** Each once; most packs have the same. */
  readonly contexts: readonly string[];
  readonly outcomes: readonly ExchangeOutcome[];
}

/** Where `PackBuffer.numbers` has what of a pack; `add` writes them in this order. */
const offsets = {
  first: 0,
  last: 1,
  count: 2,
  /** Where its content begins in `bytes`, and its length. */
  start: 3,
  size: 4,
  /** Which of `contexts` and `outcomes` it has, counted from one; zero for none. */
  context: 5,
  outcome: 6,
  /** Of a complete exchange; NaN for a duration it does not have. */
  at: 7,
  durationMs: 8,
  upstreamMs: 9,
  requestBytes: 10,
  answerBytes: 11,
} as const;

const numbersPerPack = Object.keys(offsets).length;

/** More than a recorder takes of usual exchanges before it hands them over. */
const usualPacks = 2048;
const maxSpareNumbers = 4;

/** Outside of the heap: an array there would grow with every exchange, and be moved to the old generation with each batch. */
function allocateNumbers(packs: number): Float64Array<SharedArrayBuffer> {
  return new Float64Array(new SharedArrayBuffer(packs * numbersPerPack * Float64Array.BYTES_PER_ELEMENT));
}

/** How many packs a buffer holds. */
export function packCount({ numbers }: PackBuffer): number {
  return numbers.length / numbersPerPack;
}

/** Collects packs for the writer thread. */
export interface PackBufferWriter {
  /** Bytes packed since the last call of `take`. */
  readonly size: number;
  add(frames: readonly CapturedFrame[]): void;
  /** Everything since the last call. */
  take(): PackBuffer;
  /** Reuses the memory of a buffer that nobody reads any more. */
  recycle(buffer: PackBuffer): void;
}

/** Makes a collector of packs. */
export function createPackBufferWriter(): PackBufferWriter {
  const writer = new ByteWriter();
  let numbers = allocateNumbers(usualPacks);
  /** How many of them are set. */
  let used = 0;
  const spareNumbers: SharedArrayBuffer[] = [];
  let contexts: string[] = [];
  let contextNumbers = new Map<FrameContext, number>();
  let outcomes: ExchangeOutcome[] = [];
  const outcomeNumbers = createOutcomeCache<number>();

  function contextNumber(context: FrameContext): number {
    let number = contextNumbers.get(context);
    if (number === undefined) {
      number = contexts.push(formatContext(context));
      contextNumbers.set(context, number);
    }
    return number;
  }

  function outcomeNumber(outcome: ExchangeOutcome): number {
    let number = outcomeNumbers.get(outcome);
    if (number === undefined) {
      number = outcomes.push(outcome);
      outcomeNumbers.set(outcome, number);
    }
    return number;
  }

  function grow(): void {
    const grown = allocateNumbers((numbers.length / numbersPerPack) * 2);
    grown.set(numbers);
    numbers = grown;
  }

  return {
    get size() {
      return writer.size;
    },
    add: (frames) => {
      const start = writer.size;
      const { first, last, context } = writePack(frames, writer);
      const derived = context === undefined ? undefined : deriveComplete(frames);
      const complete = derived === undefined || !isStandalone(derived) ? undefined : derived;
      if (used === numbers.length) grow();
      numbers[used + offsets.first] = first;
      numbers[used + offsets.last] = last;
      numbers[used + offsets.count] = frames.length;
      numbers[used + offsets.start] = start;
      numbers[used + offsets.size] = writer.size - start;
      numbers[used + offsets.context] = context === undefined ? 0 : contextNumber(context);
      numbers[used + offsets.outcome] = complete === undefined ? 0 : outcomeNumber(complete);
      numbers[used + offsets.at] = complete?.at ?? 0;
      numbers[used + offsets.durationMs] = complete?.durationMs ?? Number.NaN;
      numbers[used + offsets.upstreamMs] = complete?.upstreamMs ?? Number.NaN;
      numbers[used + offsets.requestBytes] = complete?.requestBytes ?? 0;
      numbers[used + offsets.answerBytes] = complete?.answerBytes ?? 0;
      used += numbersPerPack;
    },
    take: () => {
      const buffer = { bytes: writer.take(), numbers: numbers.subarray(0, used), contexts, outcomes };
      const spare = spareNumbers.pop();
      numbers = spare === undefined ? allocateNumbers(usualPacks) : new Float64Array(spare);
      used = 0;
      contexts = [];
      contextNumbers = new Map();
      outcomes = [];
      outcomeNumbers.clear();
      return buffer;
    },
    recycle: ({ bytes, numbers: { buffer } }) => {
      writer.recycle(bytes);
      const isUsual = buffer.byteLength === usualPacks * numbersPerPack * Float64Array.BYTES_PER_ELEMENT;
      if (isUsual && spareNumbers.length < maxSpareNumbers) spareNumbers.push(buffer);
    },
  };
}

/** The packs of a buffer in the order of their first frames; their contents stay in it. */
export function readPackBuffer({ bytes, numbers, contexts, outcomes }: PackBuffer): FramePack[] {
  // A Buffer, because views of one cost less.
  const content = Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength);
  const packs: FramePack[] = [];
  for (let at = 0; at < numbers.length; at += numbersPerPack) {
    const start = numbers[at + offsets.start] ?? 0;
    const outcome = outcomes[(numbers[at + offsets.outcome] ?? 0) - 1];
    packs.push({
      first: numbers[at + offsets.first] ?? 0,
      last: numbers[at + offsets.last] ?? 0,
      count: numbers[at + offsets.count] ?? 0,
      context: contexts[(numbers[at + offsets.context] ?? 0) - 1] ?? "",
      content: content.subarray(start, start + (numbers[at + offsets.size] ?? 0)),
      complete: outcome === undefined ? undefined : readComplete(numbers, at, outcome),
    });
  }
  return packs.toSorted((one, other) => one.first - other.first);
}

function readComplete(numbers: Float64Array, at: number, outcome: ExchangeOutcome): CompleteExchange {
  const durationMs = numbers[at + offsets.durationMs] ?? Number.NaN;
  const upstreamMs = numbers[at + offsets.upstreamMs] ?? Number.NaN;
  return {
    outcome,
    at: numbers[at + offsets.at] ?? 0,
    durationMs: Number.isNaN(durationMs) ? undefined : durationMs,
    upstreamMs: Number.isNaN(upstreamMs) ? undefined : upstreamMs,
    requestBytes: numbers[at + offsets.requestBytes] ?? 0,
    answerBytes: numbers[at + offsets.answerBytes] ?? 0,
  };
}

/** The frames of an exchange that are not packed yet. */
export interface FrameGroup extends ListItem {
  readonly frames: CapturedFrame[];
}

/** Groups frames by exchange, and packs each exchange when it ends. */
export interface ExchangeBatcher {
  /** Bytes packed since the last call of `take`. */
  readonly packedBytes: number;
  /** Adds a frame to the frames of its exchange that are not packed yet; a frame without any is packed by itself. */
  add(frame: CapturedFrame, group: FrameGroup | undefined): void;
  /** Packs open exchanges too, and hands over everything since the last call. */
  take(): PackBuffer;
  recycle(buffer: PackBuffer): void;
}

/** Makes the batcher of a recorder. */
export function createExchangeBatcher(): ExchangeBatcher {
  const writer = createPackBufferWriter();
  const open = new UnorderedList<FrameGroup>();

  function pack({ frames }: FrameGroup): void {
    writer.add(frames);
    frames.length = 0;
  }

  return {
    get packedBytes() {
      return writer.size;
    },
    add: (frame, group) => {
      if (group === undefined) {
        writer.add([frame]);
        return;
      }
      const { frames } = group;
      const [first] = frames;
      if (first !== undefined && frame.seq - first.seq >= maxPackSpan) pack(group);
      frames.push(frame);
      // An answer or a notification that goes out is the last frame of an exchange, and a refused request the only one.
      const isLast =
        frame.kind === "http" || (frame.passing === "sent" && frame.kind !== "request" && frame.kind !== "decision");
      if (isLast) {
        pack(group);
        open.delete(group);
      } else if (group.listIndex < 0) open.add(group);
    },
    take: () => {
      for (const group of open.items.slice()) {
        pack(group);
        open.delete(group);
      }
      return writer.take();
    },
    recycle: (buffer) => {
      writer.recycle(buffer);
    },
  };
}
