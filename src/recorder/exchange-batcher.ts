import { ByteWriter } from "./bytes.ts";
import type { ExchangeRecord, Frame, FrameContext } from "./contract.ts";
import { deriveComplete } from "./derive.ts";
import {
  type CompleteExchange,
  type ContextWriter,
  formatContext,
  type FramePack,
  isStandalone,
  maxPackSpan,
  writePack,
} from "./pack.ts";
import { createOutcomeCache, type ExchangeOutcome } from "./dimension-cache.ts";

/**
 * Packs as they go to a thread: their contents in one piece and a list of numbers, which cost next to nothing to hand
 * over, where copies of many small values would cost as much as writing them.
 */
export interface PackBuffer {
  readonly bytes: Uint8Array<SharedArrayBuffer>;
  /** For each pack its first and last number, its frames, which context it has from one on, where it begins, and its size. */
  readonly packs: Uint32Array;
  /** Each once: most packs have the same. */
  readonly contexts: readonly string[];
  /**
   * For each pack what it is as a whole: which subject it has from one on or zero, its time, how long it took, here and
   * upstream, or not a number, and the bytes of request and answer.
   */
  readonly completes: Float64Array;
  readonly outcomes: readonly ExchangeOutcome[];
}

const numbersPerPack = 6;
const numbersPerComplete = 6;

/** How many packs there are. */
export function packCount({ packs }: PackBuffer): number {
  return packs.length / numbersPerPack;
}

/** Those numbers, and how many came before. */
type PackHeader = readonly [number, number, number, number, number, number, number];

const maxCachedOutcomes = 2000;

/** Puts packs together to be handed over, as they come. */
export interface PackBufferWriter {
  /** Bytes so far. */
  readonly size: number;
  add(frames: readonly Frame[]): void;
  /** Everything since the last time, in the order of first frames. */
  take(): PackBuffer;
  /** Takes back what was handed over and is needed no more. */
  recycle(wire: PackBuffer): void;
}

/** Makes a writer of packs. */
export function createPackBufferWriter(writeContext: ContextWriter = formatContext): PackBufferWriter {
  const writer = new ByteWriter();
  let outlines: PackHeader[] = [];
  let contexts: string[] = [];
  let places = new Map<FrameContext, number>();
  let wholes: number[] = [];
  let subjects: ExchangeOutcome[] = [];
  /** Where subjects stand, and since which time of taking. */
  const book = createOutcomeCache<{ round: number; place: number }>();
  let round = 0;
  let known = 0;

  function subjectPlace(subject: ExchangeOutcome): number {
    let entry = book.get(subject);
    if (entry === undefined) {
      if (known++ >= maxCachedOutcomes) {
        book.clear();
        known = 0;
      }
      entry = { round: -1, place: 0 };
      book.set(subject, entry);
    }
    if (entry.round !== round) {
      entry.round = round;
      entry.place = subjects.push(subject);
    }
    return entry.place;
  }

  function addWhole(exchange: ExchangeRecord | undefined): void {
    if (exchange === undefined || !isStandalone(exchange)) {
      wholes.push(0, 0, 0, 0, 0, 0);
      return;
    }
    const { at, durationMs = Number.NaN, upstreamMs = Number.NaN, requestBytes, answerBytes } = exchange;
    wholes.push(subjectPlace(exchange), at, durationMs, upstreamMs, requestBytes, answerBytes);
  }

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
      outlines.push([first, last, frames.length, place, start, writer.size - start, outlines.length]);
      addWhole(context === undefined ? undefined : deriveComplete(frames));
    },
    take: () => {
      const ordered = outlines.toSorted(([one], [other]) => one - other);
      const taken = {
        bytes: writer.take(),
        packs: packHeaderList(ordered),
        contexts,
        completes: completeList(ordered, wholes),
        outcomes: subjects,
      };
      wholes = [];
      subjects = [];
      round++;
      outlines = [];
      contexts = [];
      places = new Map();
      return taken;
    },
    recycle: ({ bytes }) => {
      writer.recycle(bytes);
    },
  };
}

function packHeaderList(outlines: readonly PackHeader[]): Uint32Array {
  const list = new Uint32Array(outlines.length * numbersPerPack);
  let at = 0;
  for (const outline of outlines) {
    for (let index = 0; index < numbersPerPack; index++) list[at++] = outline[index] ?? 0;
  }
  return list;
}

function completeList(outlines: readonly PackHeader[], wholes: readonly number[]): Float64Array {
  const list = new Float64Array(outlines.length * numbersPerComplete);
  let at = 0;
  for (const outline of outlines) {
    const from = outline[numbersPerPack] * numbersPerComplete;
    for (let index = 0; index < numbersPerComplete; index++) list[at++] = wholes[from + index] ?? 0;
  }
  return list;
}

/** Takes packs apart that were handed over; their contents stay where they are. */
export function readPackBuffer({
  bytes,
  packs,
  contexts,
  completes: wholes,
  outcomes: subjects,
}: PackBuffer): FramePack[] {
  const taken: FramePack[] = [];
  for (let at = 0, from = 0; at < packs.length; at += numbersPerPack, from += numbersPerComplete) {
    const subject = subjects[(wholes[from] ?? 0) - 1];
    const start = packs[at + 4] ?? 0;
    taken.push({
      first: packs[at] ?? 0,
      last: packs[at + 1] ?? 0,
      count: packs[at + 2] ?? 0,
      context: contexts[(packs[at + 3] ?? 0) - 1] ?? "",
      content: bytes.subarray(start, start + (packs[at + 5] ?? 0)),
      complete: subject === undefined ? undefined : readComplete(wholes, from, subject),
    });
  }
  return taken;
}

function readComplete(wholes: Float64Array, from: number, subject: ExchangeOutcome): CompleteExchange {
  const duration = wholes[from + 2] ?? Number.NaN;
  const upstream = wholes[from + 3] ?? Number.NaN;
  return {
    outcome: subject,
    at: wholes[from + 1] ?? 0,
    ...(Number.isNaN(duration) ? undefined : { durationMs: duration }),
    ...(Number.isNaN(upstream) ? undefined : { upstreamMs: upstream }),
    requestBytes: wholes[from + 4] ?? 0,
    answerBytes: wholes[from + 5] ?? 0,
  };
}

/** Frames of an exchange that goes on; kept with the exchange, since a map of all would outlive its frames in memory. */
export interface FrameGroup {
  readonly frames: Frame[];
  /** Where it stands among those that go on; -1 where it does not. */
  index: number;
}

/** Makes the group of a new exchange. */
export function createFrameGroup(): FrameGroup {
  return { frames: [], index: -1 };
}

/** Puts frames together by their exchanges, and packs those of an exchange when it has ended. */
export interface ExchangeBatcher {
  add(frame: Frame, group: FrameGroup | undefined): void;
  /** Packs what goes on too. */
  packOpen(): void;
}

/** Makes the gathering of what goes to a writer of packs. */
export function createExchangeBatcher(wire: Pick<PackBufferWriter, "add">): ExchangeBatcher {
  const going: FrameGroup[] = [];

  function pack(group: FrameGroup): void {
    wire.add(group.frames);
    group.frames.length = 0;
  }

  function leave(group: FrameGroup): void {
    const last = going.pop();
    if (last !== undefined && last !== group) {
      going[group.index] = last;
      last.index = group.index;
    }
    group.index = -1;
  }

  return {
    add: (frame, group) => {
      if (group === undefined) {
        wire.add([frame]);
        return;
      }
      const { frames } = group;
      const [first] = frames;
      if (first !== undefined && frame.seq - first.seq >= maxPackSpan) pack(group);
      frames.push(frame);
      // An answer or a notification that goes out is the last that is heard of an exchange.
      const isLast = frame.passing === "sent" && frame.kind !== "request" && frame.kind !== "decision";
      if (isLast) {
        pack(group);
        if (group.index >= 0) leave(group);
      } else if (group.index < 0) group.index = going.push(group) - 1;
    },
    packOpen: () => {
      for (const group of going) {
        pack(group);
        group.index = -1;
      }
      going.length = 0;
    },
  };
}
