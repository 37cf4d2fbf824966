import { GatewayError } from "../errors.ts";
import type { SetTimer } from "../core/exchange.ts";
import type { PackBuffer } from "./exchange-batcher.ts";

/** Packed frames that wait to be written. */
export interface SealedBatch {
  readonly packs: PackBuffer;
  readonly frames: number;
  /** Bytes of bodies. */
  readonly bytes: number;
  /** The number of the last frame. */
  readonly last: number;
}

/** What a batch writer needs. */
export interface BatchWriterDeps {
  readonly setTimer: SetTimer;
  /** The frames since the last call; undefined if there are none. */
  readonly seal: () => SealedBatch | undefined;
  /** Whether any frames wait, sealed or not. */
  readonly hasFrames: () => boolean;
  /** Writes batches in one transaction; `isLast` if nothing waits behind them. */
  readonly append: (batches: readonly SealedBatch[], isLast: boolean) => Promise<void>;
  readonly onWritten: (batch: SealedBatch) => void;
  readonly onError: (error: GatewayError) => void;
  readonly onRecovery: () => void;
}

/** Writes frames a batch at a time, and tries again while the store fails. */
export interface BatchWriter {
  readonly isFailing: boolean;
  /** Writes soon, together with what comes until then. */
  schedule(): void;
  /** Writes now, unless a write is under way or failed a moment ago. */
  flush(): void;
  /** Seals and writes now, before the current buffer grows further. */
  flushSealed(): void;
  /** Resolves when the frame with this number is on disk. */
  written(seq: number): Promise<void>;
  /** Waits for the write under way, and starts no other by itself. */
  stop(): Promise<void>;
  /** Writes everything that waits; for use after `stop`. */
  writeRest(): Promise<void>;
}

interface Waiter {
  readonly seq: number;
  readonly resolve: () => void;
  readonly reject: (error: GatewayError) => void;
}

/** Waking the writer thread costs as much as writing a dozen exchanges, so frames are collected this long. */
const flushMs = 100;
const retryMs = 1000;
/** A transaction may take many round trips, so that fewer larger ones are quicker. */
const maxBatchFrames = 48_000;
const maxBatchBytes = 4_194_304;

/** Makes the batch writer of a recorder. */
export function createBatchWriter(deps: BatchWriterDeps): BatchWriter {
  let queue: SealedBatch[] = [];
  let waiters: Waiter[] = [];
  let stopTimer: (() => void) | undefined;
  let writing: Promise<void> | undefined;
  let isFailing = false;
  let isStopped = false;

  function seal(): void {
    const batch = deps.seal();
    if (batch !== undefined) queue.push(batch);
  }

  function schedule(): void {
    if (isStopped || writing !== undefined) return;
    stopTimer ??= deps.setTimer(isFailing ? retryMs : flushMs, () => {
      stopTimer = undefined;
      flush();
    });
  }

  function flush(): void {
    if (writing !== undefined || (isFailing && stopTimer !== undefined)) return;
    cancelTimer();
    writing = write().finally(() => {
      writing = undefined;
      if (deps.hasFrames()) schedule();
    });
  }

  /** Writes what is queued, and what arrives meanwhile if a caller waits for it, until the store fails. */
  async function write(): Promise<void> {
    for (seal(); queue.length > 0; waiters.length > 0 && seal()) {
      const batches = nextBatches(queue);
      try {
        await deps.append(batches, batches.length === queue.length);
      } catch (error) {
        fail(GatewayError.from(error));
        return;
      }
      // Batches are only added at the end meanwhile.
      queue = queue.slice(batches.length);
      for (const batch of batches) deps.onWritten(batch);
      resolveUpTo(batches.at(-1)?.last ?? -1);
      if (isFailing) {
        isFailing = false;
        deps.onRecovery();
      }
    }
  }

  function resolveUpTo(last: number): void {
    const settled = waiters.filter(({ seq }) => seq <= last);
    if (settled.length === 0) return;
    waiters = waiters.filter(({ seq }) => seq > last);
    for (const { resolve } of settled) resolve();
  }

  function fail(error: GatewayError): void {
    const cause = error.code === "store_failed" ? error.cause : error;
    const left = waiters;
    waiters = [];
    for (const { reject } of left) reject(new GatewayError("store_failed", notRecorded, { cause }));
    if (!isFailing) deps.onError(error);
    isFailing = true;
  }

  function cancelTimer(): void {
    stopTimer?.();
    stopTimer = undefined;
  }

  return {
    get isFailing() {
      return isFailing;
    },
    schedule,
    flush,
    flushSealed: () => {
      seal();
      flush();
    },
    written: (seq) =>
      new Promise((resolve, reject) => {
        waiters.push({ seq, resolve, reject });
        // Requests of the same turn are written together.
        queueMicrotask(flush);
      }),
    stop: async () => {
      isStopped = true;
      cancelTimer();
      await writing;
      cancelTimer();
    },
    writeRest: write,
  };
}

/** The error for clients if `record.onFailure` refuses what cannot be recorded. */
export const notRecorded = "Recording is unavailable; request refused.";

/** The front of a queue: not too many frames or bytes for a thread with little memory. */
function nextBatches(queue: readonly SealedBatch[]): readonly SealedBatch[] {
  let frames = 0;
  let bytes = 0;
  const end = queue.findIndex((batch, index) => {
    frames += batch.frames;
    bytes += batch.bytes;
    return index > 0 && (frames > maxBatchFrames || bytes > maxBatchBytes);
  });
  return end === -1 ? queue.slice() : queue.slice(0, end);
}
