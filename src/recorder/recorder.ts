import type { Clock, SetTimer } from "../core/exchange.ts";
import { GatewayError } from "../errors.ts";
import type { Redactor } from "../redact/redactor.ts";
import { createBatchWriter, notRecorded, type SealedBatch } from "./batch-writer.ts";
import { createFrameCapture, type FrameCapture } from "./capture.ts";
import { captureFormat, type CaptureRecord } from "./contract.ts";
import { createExchangeBatcher, type FrameGroup, type PackBuffer } from "./exchange-batcher.ts";
import { createFrame, type FrameDraft } from "./pack.ts";

/** Where a recorder's frames go. */
export interface FrameSink {
  /** Resolves when the batch is stored; rejects if none of it is. */
  append(batch: PackBufferBatch): Promise<void>;
}

/** What is stored in one transaction. */
export interface PackBufferBatch {
  readonly capture: CaptureRecord;
  readonly packs: readonly PackBuffer[];
}

/** How much a recorder holds, and what it does when it cannot keep up. */
export interface RecorderLimits {
  /** Most frames that wait to be written. */
  readonly queueFrames: number;
  /** Most bytes of bodies that wait to be written; from three quarters on, bodies are left out. */
  readonly queueBytes: number;
  /** Larger bodies are left out. */
  readonly bodyBytes: number;
  /** `drop` loses frames and counts them; `refuse` refuses requests that cannot be recorded. */
  readonly onFailure: "drop" | "refuse";
}

/** What a recorder is made with. */
export interface RecorderOptions extends RecorderLimits {
  /** The id of the capture, unique among all gateways that write to one store. */
  readonly capture: string;
  /** Program, version and host. */
  readonly writer: string;
  readonly sink: FrameSink;
  readonly redactor: Redactor;
  readonly clock: Clock;
  readonly setTimer: SetTimer;
  /** Called once when writing begins to fail. */
  readonly onError: (error: GatewayError) => void;
  /** Called when writing works again, with the number of frames lost so far. */
  readonly onRecovery: (lost: number) => void;
  /** Called with the number of frames written or lost, for metrics. */
  readonly onCount?: (what: "written" | "lost", frames: number) => void;
}

/** Records the traffic of a gateway. Its methods never throw, and only `persisted` makes anybody wait. */
export interface Recorder extends FrameCapture {
  /** Whether requests must be refused because they could not be recorded. */
  readonly isRefusing: boolean;
  /**
   * Resolves when everything so far is stored, and rejects with `store_failed` if it cannot be; undefined if answers
   * need not wait for that.
   */
  persisted(): Promise<void> | undefined;
  /** Counts frames as lost that were stored and are gone. */
  lose(frames: number): void;
  /** Writes everything that waits, and ends the capture. Resolves with the number of frames that could not be written. */
  close(): Promise<number>;
}

/** A buffer of this size is handed to the writer before its time. */
const sealAtFrames = 8000;
const sealAtBytes = 786_432;

/** How much of a server's standard error is recorded in a second; the number of further lines is recorded. */
const stderrLines = 200;
const stderrBytes = 131_072;

/** Starts a capture. */
export function createRecorder(options: RecorderOptions): Recorder {
  const { clock, sink, onFailure, queueFrames, queueBytes } = options;
  const batcher = createExchangeBatcher();
  const setTimes = createTimestamps(clock);
  const startedAt = clock.wall();
  const counts = { frames: 0, bytes: 0, lost: 0, omitted: 0, redacted: 0 };
  /** Frames that are not stored yet, and those of them that are not sealed yet. */
  const queued = { frames: 0, bytes: 0 };
  const unsealed = { frames: 0, bytes: 0 };
  const admitsStderr = createStderrLimit(clock);
  let nextSeq = 0;
  /** Frames lost since the last one that was taken. */
  let gap = 0;
  let endedAt: number | undefined;

  const writer = createBatchWriter({
    setTimer: options.setTimer,
    seal,
    hasFrames: () => queued.frames > 0,
    append: (batches, isLast) =>
      sink.append({ capture: captureRecord(isLast ? endedAt : undefined), packs: batches.map(({ packs }) => packs) }),
    onWritten: ({ frames, bytes, packs }) => {
      queued.frames -= frames;
      queued.bytes -= bytes;
      options.onCount?.("written", frames);
      batcher.recycle(packs);
    },
    onError: options.onError,
    onRecovery: () => {
      options.onRecovery(counts.lost);
    },
  });

  function captureRecord(end: number | undefined): CaptureRecord {
    return {
      id: options.capture,
      format: captureFormat,
      writer: options.writer,
      startedAt,
      ...(end === undefined ? {} : { endedAt: end }),
      ...counts,
      rules: options.redactor.rules,
    };
  }

  function seal(): SealedBatch | undefined {
    if (unsealed.frames === 0) return undefined;
    const batch = { packs: batcher.take(), ...unsealed, last: nextSeq - 1 };
    unsealed.frames = 0;
    unsealed.bytes = 0;
    return batch;
  }

  function push(frame: FrameDraft, group?: FrameGroup): number {
    const seq = nextSeq++;
    frame.capture = options.capture;
    frame.seq = seq;
    setTimes(frame);
    batcher.add(frame, group);
    const size = bodySize(frame);
    unsealed.frames++;
    unsealed.bytes += size;
    queued.frames++;
    queued.bytes += size;
    counts.frames++;
    counts.bytes += frame.bytes;
    counts.redacted += frame.redacted ?? 0;
    if (frame.omitted !== undefined) counts.omitted++;
    return seq;
  }

  function take(frame: FrameDraft, group: FrameGroup | undefined): number | undefined {
    if (endedAt !== undefined) return undefined;
    const isStderr = frame.kind === "stderr";
    const room = isStderr ? queueFrames / 2 : queueFrames;
    if (queued.frames >= room || (isStderr && !admitsStderr(frame))) {
      // Of standard error, its next line says how much is missing.
      if (!isStderr) {
        nextSeq++;
        gap++;
      }
      lose(1);
      return undefined;
    }
    pushGap();
    if (bodySize(frame) > 0 && queued.bytes + bodySize(frame) > queueBytes * 0.75) omitBody(frame);
    const seq = push(frame, group);
    // Packs of short messages are mostly decisions and times, which `unsealed` does not count.
    const isFull =
      unsealed.frames >= sealAtFrames || unsealed.bytes >= sealAtBytes || batcher.packedBytes >= sealAtBytes;
    if (isFull) writer.flushSealed();
    else writer.schedule();
    return seq;
  }

  function lose(frames: number): void {
    counts.lost += frames;
    if (frames > 0) options.onCount?.("lost", frames);
  }

  function pushGap(): void {
    if (gap === 0) return;
    const frame = createFrame("gap", "client", "received", "c2s");
    frame.lost = gap;
    push(frame);
    gap = 0;
  }

  return {
    ...createFrameCapture({ redactor: options.redactor, bodyBytes: options.bodyBytes, onFrame: take }),
    get isRefusing() {
      return onFailure === "refuse" && (writer.isFailing || queued.frames >= queueFrames);
    },
    persisted: () => {
      if (onFailure !== "refuse") return undefined;
      if (gap > 0 || writer.isFailing) return Promise.reject(new GatewayError("store_failed", notRecorded));
      return writer.written(nextSeq - 1);
    },
    lose,
    close: async () => {
      if (endedAt !== undefined) return 0;
      await writer.stop();
      pushGap();
      push(createFrame("end", "client", "received", "c2s"));
      endedAt = clock.wall();
      await writer.writeRest();
      lose(queued.frames);
      return queued.frames;
    },
  };
}

function bodySize({ body, rawBody }: FrameDraft): number {
  return body?.length ?? rawBody?.length ?? 0;
}

function omitBody(frame: FrameDraft): void {
  frame.body = undefined;
  frame.rawBody = undefined;
  frame.omitted = "queue";
}

/** Whether a line of standard error is recorded: a noisy server must not crowd out the messages of others. */
function createStderrLimit(clock: Clock): (frame: FrameDraft) => boolean {
  const routes = new Map<string, { since: number; bytes: number; lines: number; skipped: number }>();
  return (frame) => {
    const route = frame.target ?? "";
    let own = routes.get(route);
    if (own === undefined) {
      own = { since: clock.now(), bytes: 0, lines: 0, skipped: 0 };
      routes.set(route, own);
    }
    if (clock.now() - own.since >= 1000) Object.assign(own, { since: clock.now(), bytes: 0, lines: 0 });
    if (own.lines >= stderrLines || own.bytes >= stderrBytes) {
      own.skipped++;
      return false;
    }
    own.lines++;
    own.bytes += frame.bytes;
    if (own.skipped > 0) frame.body = `[${own.skipped} lines left out] ${frame.body ?? ""}`;
    own.skipped = 0;
    return true;
  };
}

/** Sets the times of frames. Wall time is in whole milliseconds, so it is read only when one has passed. */
function createTimestamps(clock: Clock): (frame: FrameDraft) => void {
  const startedAt = clock.now();
  let wall = clock.wall();
  let wallReadAt = startedAt;
  return (frame) => {
    const now = clock.now();
    if (now - wallReadAt >= 1) {
      wall = clock.wall();
      wallReadAt = now;
    }
    frame.at = wall;
    frame.mono = Math.round((now - startedAt) * 1000) / 1000;
  };
}
