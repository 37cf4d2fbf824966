import { GatewayError } from "../errors.ts";
import type { Clock, SetTimer } from "../core/exchange.ts";
import type { Redactor } from "../redact/redactor.ts";
import { createFrame, createFrameCapture, type FrameCapture, type FrameDraft } from "./capture.ts";
import { captureFormat, type CaptureRecord } from "./contract.ts";
import { createExchangeBatcher, createPackBufferWriter, type FrameGroup, type PackBuffer } from "./exchange-batcher.ts";
import { createContextWriter } from "./pack.ts";

/** Where a recorder's frames go. */
export interface FrameSink {
  /** Resolves when all of it is kept; rejects when nothing of it is. */
  append(batch: PackBufferBatch): Promise<void>;
}

/** What is to be kept as a whole. */
export interface PackBufferBatch {
  readonly capture: CaptureRecord;
  readonly packs: readonly PackBuffer[];
}

/** What a recorder holds at most, and what it does when it cannot keep up. */
export interface RecorderLimits {
  /** Most frames that wait to be written. */
  readonly queueFrames: number;
  /** Most bytes of bodies that wait to be written; bodies are left out from three quarters of it on. */
  readonly queueBytes: number;
  /** Bodies that are larger are left out. */
  readonly bodyBytes: number;
  /** `drop` loses frames and counts them; `refuse` answers no request whose record is not kept. */
  readonly onFailure: "drop" | "refuse";
}

/** What a recorder is made with. */
export interface RecorderOptions extends RecorderLimits {
  /** Names the capture: unique over all gateways that write to one store. */
  readonly capture: string;
  /** Who writes: program, version, host. */
  readonly writer: string;
  readonly sink: FrameSink;
  readonly redactor: Redactor;
  readonly clock: Clock;
  readonly setTimer: SetTimer;
  /** Told once when writing begins to fail. */
  readonly onError: (error: GatewayError) => void;
  /** Told when writing works again, with how many frames are missing by now. */
  readonly onRecovery: (lost: number) => void;
  /** Told of frames as they are written and lost, to be counted. */
  readonly onCount?: (what: "written" | "lost", frames: number) => void;
}

/** Records what passes through a gateway. Nothing it is told can fail, and nothing waits for it unless asked to. */
export interface Recorder extends FrameCapture {
  /** Whether requests are to be refused: they could not be recorded, and the configuration minds. */
  readonly isRefusing: boolean;
  /**
   * Where nothing may happen unrecorded: resolves when everything so far is kept, rejects with `store_failed` when it
   * is not. Undefined where nobody has to wait.
   */
  persisted(): Promise<void> | undefined;
  /** Writes what waits, ends the capture. */
  close(): Promise<void>;
}

interface Waiter {
  readonly seq: number;
  readonly resolve: () => void;
  readonly reject: (error: GatewayError) => void;
}

/** Frames that are packed and wait to be written. */
interface SealedBatch {
  readonly packs: PackBuffer;
  readonly frames: number;
  /** Of bodies. */
  readonly bytes: number;
  /** The number of the last frame. */
  readonly last: number;
}

/** To wake a thread costs as much as to write a dozen exchanges, so that it is not done sooner than it must be. */
const flushMs = 100;
/** What is as much is not left to grow until then. */
const sealAtFrames = 8000;
const sealAtBytes = 786_432;
const maxBatchFrames = 8000;
const maxBatchBytes = 4_194_304;
const retryMs = 1000;

/** Begins a capture. */
export function createRecorder(options: RecorderOptions): Recorder {
  const { clock, setTimer, sink, onFailure, queueFrames, queueBytes } = options;
  const began = clock.now();
  const counts = { frames: 0, bytes: 0, lost: 0, omitted: 0, redacted: 0 };
  const startedAt = clock.wall();
  let wall = startedAt;
  let wallAt = began;
  const wire = createPackBufferWriter(createContextWriter());
  const gathering = createExchangeBatcher(wire);
  let queue: SealedBatch[] = [];
  /** What was not sealed yet. */
  let freshFrames = 0;
  let freshBytes = 0;
  let queuedFrames = 0;
  let queuedBytes = 0;
  let next = 0;
  /** Frames lost since the last one that was taken. */
  let gap = 0;
  let waiters: Waiter[] = [];
  let stopTimer: (() => void) | undefined;
  let writing: Promise<void> | undefined;
  let isFailing = false;
  let isClosed = false;

  const refuses = onFailure === "refuse";
  const fullBytes = queueBytes * 0.75;

  function recordOf(endedAt?: number): CaptureRecord {
    return {
      id: options.capture,
      format: captureFormat,
      writer: options.writer,
      startedAt,
      ...(endedAt === undefined ? {} : { endedAt }),
      ...counts,
      rules: options.redactor.rules,
    };
  }

  function push(frame: FrameDraft, group?: FrameGroup): number {
    const seq = next++;
    frame.capture = options.capture;
    frame.seq = seq;
    const now = clock.now();
    // Wall time is in whole milliseconds, and most frames come within one.
    if (now - wallAt >= 1) {
      wall = clock.wall();
      wallAt = now;
    }
    frame.at = wall;
    frame.mono = Math.round((now - began) * 1000) / 1000;
    gathering.add(frame, group);
    freshFrames++;
    queuedFrames++;
    const size = frame.body?.length ?? 0;
    queuedBytes += size;
    freshBytes += size;
    counts.frames++;
    counts.bytes += frame.bytes;
    counts.redacted += frame.redacted ?? 0;
    if (frame.omitted !== undefined) counts.omitted++;
    return seq;
  }

  function take(frame: FrameDraft, group: FrameGroup | undefined): number | undefined {
    if (isClosed) return undefined;
    if (queuedFrames >= queueFrames) {
      lose(1);
      return undefined;
    }
    if (gap > 0) {
      push(createGapFrame(gap));
      gap = 0;
    }
    if (frame.body !== undefined && queuedBytes + frame.body.length > fullBytes) {
      frame.body = undefined;
      frame.omitted = "queue";
    }
    const seq = push(frame, group);
    if (freshFrames >= sealAtFrames || freshBytes >= sealAtBytes) {
      seal();
      flush();
    } else if (stopTimer === undefined && writing === undefined) flushLater();
    return seq;
  }

  function flushLater(): void {
    stopTimer ??= setTimer(isFailing ? retryMs : flushMs, () => {
      stopTimer = undefined;
      flush();
    });
  }

  function seal(): void {
    if (freshFrames === 0) return;
    gathering.packOpen();
    queue.push({ packs: wire.take(), frames: freshFrames, bytes: freshBytes, last: next - 1 });
    freshFrames = 0;
    freshBytes = 0;
  }

  function lose(count: number): void {
    next += count;
    gap += count;
    counts.lost += count;
    options.onCount?.("lost", count);
  }

  function cancelTimer(): void {
    stopTimer?.();
    stopTimer = undefined;
  }

  function flush(): void {
    if (writing !== undefined || (isFailing && stopTimer !== undefined)) return;
    cancelTimer();
    writing = write().finally(() => {
      writing = undefined;
      if (!isClosed && queuedFrames > 0) flushLater();
    });
  }

  /** Writes what waits, and what comes meanwhile if somebody waits for it, until the store fails. */
  async function write(endedAt?: number): Promise<void> {
    for (seal(); queue.length > 0; waiters.length > 0 && seal()) {
      const batch = nextBatch(queue);
      const isLast = batch.length === queue.length;
      try {
        const packs = batch.map((sealed) => sealed.packs);
        await sink.append({ capture: recordOf(isLast ? endedAt : undefined), packs });
      } catch (error) {
        fail(GatewayError.from(error));
        return;
      }
      // What was taken meanwhile came behind: the front of the queue is what was written.
      queue = queue.slice(batch.length);
      let last = -1;
      for (const sealed of batch) {
        queuedFrames -= sealed.frames;
        queuedBytes -= sealed.bytes;
        options.onCount?.("written", sealed.frames);
        last = sealed.last;
        wire.recycle(sealed.packs);
      }
      settle(last);
      if (isFailing) {
        isFailing = false;
        options.onRecovery(counts.lost);
      }
    }
  }

  function settle(last: number): void {
    const settled = waiters.filter(({ seq }) => seq <= last);
    if (settled.length === 0) return;
    waiters = waiters.filter(({ seq }) => seq > last);
    for (const { resolve } of settled) resolve();
  }

  function fail(error: GatewayError): void {
    const cause = error.code === "store_failed" ? error.cause : error;
    const told = new GatewayError("store_failed", "this cannot be recorded at the moment, so it is not answered", {
      cause,
    });
    const left = waiters;
    waiters = [];
    for (const { reject } of left) reject(told);
    if (!isFailing) options.onError(error);
    isFailing = true;
  }

  return {
    ...createFrameCapture({ redactor: options.redactor, clock, bodyBytes: options.bodyBytes, onFrame: take }),
    get isRefusing() {
      return refuses && (isFailing || queuedFrames >= queueFrames);
    },
    persisted: () => {
      if (!refuses) return undefined;
      if (gap > 0 || isFailing) {
        return Promise.reject(new GatewayError("store_failed", "this could not be recorded, so it is not answered"));
      }
      return new Promise((resolve, reject) => {
        waiters.push({ seq: next - 1, resolve, reject });
        // Whoever comes in the same turn is kept by the same write.
        queueMicrotask(flush);
      });
    },
    close: async () => {
      if (isClosed) return;
      cancelTimer();
      await writing;
      cancelTimer();
      if (gap > 0) push(createGapFrame(gap));
      push(createFrame("end", "client", "received", "c2s"));
      isClosed = true;
      await write(clock.wall());
    },
  };
}

/** The front of a queue: some frames, and not too many bytes for a thread with little memory. */
function nextBatch(queue: readonly SealedBatch[]): readonly SealedBatch[] {
  let frames = 0;
  let bytes = 0;
  const end = queue.findIndex((sealed, index) => {
    frames += sealed.frames;
    bytes += sealed.bytes;
    return index > 0 && (frames > maxBatchFrames || bytes > maxBatchBytes);
  });
  return end === -1 ? queue.slice() : queue.slice(0, end);
}

function createGapFrame(lost: number): FrameDraft {
  const frame = createFrame("gap", "client", "received", "c2s");
  frame.lost = lost;
  return frame;
}
