import { extname } from "node:path";
import { Worker } from "node:worker_threads";

import { systemTimer, type SetTimer } from "../../core/exchange.ts";
import { GatewayError } from "../../errors.ts";
import type { CaptureRecord } from "../contract.ts";
import type { PackBuffer } from "../exchange-batcher.ts";
import type { PackBufferBatch } from "../recorder.ts";
import type { PruneResult, PruneRules } from "./store-contract.ts";

/** The store that the writer thread opens. */
export type WriterTarget =
  | {
      readonly headgateWriter: true;
      readonly type: "sqlite";
      readonly file: string;
      readonly isDurable?: boolean;
      readonly maxPages?: number;
      readonly maxWalBytes?: number;
    }
  | { readonly headgateWriter: true; readonly type: "postgres"; readonly url: string };

/** A message to the thread. */
export type WriterRequest =
  | {
      readonly id: number;
      readonly type: "append";
      readonly capture: CaptureRecord;
      readonly packs: readonly PackBuffer[];
    }
  | { readonly id: number; readonly type: "prune"; readonly rules: PruneRules }
  | { readonly id: number; readonly type: "close" };

/** The id of a reply that nobody asked for: others have changed the files of the store. */
export const goneId = -1;
/** The id of the first reply: the thread has loaded its code and begins to serve. */
export const loadedId = -2;

/** Its reply. */
export type WriterReply =
  | { readonly id: number; readonly ok: true; readonly value: unknown }
  | {
      readonly id: number;
      readonly ok: false;
      readonly message: string;
      /** The thread ends with this reply. */
      readonly isEnded: boolean;
      /** Set if others have changed the files of the store: how many frames of the present capture nobody will find. */
      readonly gone: { readonly lostFrames: number } | undefined;
    };

/** Writes recordings in a thread of its own, so that no message waits for a disk. */
export interface RecordWriter extends AsyncDisposable {
  append(batch: PackBufferBatch): Promise<void>;
  prune(rules: PruneRules): Promise<PruneResult>;
  /** Waits for pending writes, and ends the thread. */
  close(): Promise<void>;
}

interface PendingReply {
  readonly resolve: (value: unknown) => void;
  readonly reject: (error: GatewayError) => void;
  /** The thread has loaded: its time for this request begins. */
  readonly begin: () => void;
}

interface WriterThread {
  readonly started: Worker;
  readonly waiting: Map<number, PendingReply>;
  isLoaded: boolean;
}

/**
 * Limits how much garbage the thread collects. The young generation has room for what one batch leaves behind, so that
 * hardly anything of it is alive when it is collected. Needed by bench recorder: "RSS over recording off".
 */
const threadLimits = { maxYoungGenerationSizeMb: 24, maxOldGenerationSizeMb: 192 };

type WriterCommand = WriterRequest extends infer One ? (One extends WriterRequest ? Omit<One, "id"> : never) : never;

/** What a writer is made with besides its target. */
export interface WriterOptions {
  readonly setTimer?: SetTimer;
  /** A store that takes longer hangs: the thread is given up, and the batch is written again by another. Read each time. */
  readonly appendMs?: () => number;
  /** How long a request waits for a thread that is still loading, before `appendMs` begin. Read each time. */
  readonly loadMs?: () => number;
  /** Called when others have changed the files of the store, with the frames lost; the next batch opens it again. */
  readonly onGone?: (error: GatewayError, lostFrames: number) => void;
}

/** The most that `appendMs` need be. */
export const longestAppendMs = 6000;
/** The most that `loadMs` need be: a busy machine takes seconds to load a thread. */
const longestLoadMs = 30_000;
/** How long the end of the thread is waited for. */
const closeMs = 3000;

/** Makes a writer. If its thread cannot open the store, or dies, the next request starts another. */
export function startWriter(target: WriterTarget, options: WriterOptions = {}): RecordWriter {
  const { setTimer = systemTimer, appendMs = () => longestAppendMs, loadMs = () => longestLoadMs, onGone } = options;
  let worker: WriterThread | undefined;
  let requests = 0;
  /** The errors of stores that have to be opened again. */
  const gone = new WeakSet<Error>();

  function start(): WriterThread {
    const waiting = new Map<number, PendingReply>();
    // The file beside this one, as source or built.
    const file = new URL(`./writer-worker${extname(import.meta.url)}`, import.meta.url);
    const started = new Worker(file, {
      workerData: target,
      name: "headgate recorder",
      resourceLimits: threadLimits,
      // A thread that is given up must not lose the locks of the process (src/lib/keys/database-files.ts).
      trackUnmanagedFds: false,
    });
    // The thread does not keep the process alive; `close` writes what waits.
    started.unref();
    started.on("message", (answer: WriterReply) => {
      if (!thread.isLoaded) {
        thread.isLoaded = true;
        for (const { begin } of waiting.values()) begin();
      }
      const waiter = waiting.get(answer.id);
      waiting.delete(answer.id);
      const isPresent = worker === thread;
      if (!answer.ok && answer.isEnded && isPresent) worker = undefined;
      if (answer.ok) {
        waiter?.resolve(answer.value);
        return;
      }
      const error = new GatewayError("store_failed", answer.message);
      if (answer.gone !== undefined) gone.add(error);
      // Several requests may have met the same end.
      if (isPresent && answer.gone !== undefined) onGone?.(error, answer.gone.lostFrames);
      waiter?.reject(error);
    });
    const onEnd = (cause?: unknown): void => {
      if (worker === thread) worker = undefined;
      const left = [...waiting.values()];
      waiting.clear();
      for (const { reject } of left) reject(new GatewayError("store_failed", "the recording thread ended", { cause }));
    };
    started.once("error", onEnd);
    started.once("exit", onEnd);
    const thread: WriterThread = { started, waiting, isLoaded: false };
    return thread;
  }

  function ask(request: WriterCommand, limitMs?: number): Promise<unknown> {
    worker ??= start();
    const thread = worker;
    const { started, waiting } = thread;
    const id = requests++;
    // A pending request does.
    started.ref();
    return new Promise<unknown>((resolve, reject) => {
      let stop: (() => void) | undefined;
      const giveUpAfter = (milliseconds: number): void => {
        stop?.();
        if (limitMs !== undefined) stop = setTimer(milliseconds, () => giveUp(thread, milliseconds));
      };
      const begin = (): void => giveUpAfter(limitMs ?? 0);
      const settle =
        <Value>(then: (value: Value) => void) =>
        (value: Value): void => {
          stop?.();
          then(value);
        };
      if (thread.isLoaded) begin();
      else giveUpAfter(Math.max(limitMs ?? 0, loadMs()));
      waiting.set(id, { resolve: settle(resolve), reject: settle(reject), begin });
      started.postMessage({ id, ...request }, []);
    }).finally(() => {
      if (waiting.size === 0) started.unref();
    });
  }

  /**
   * Ends a thread that hangs. What it wrote after all is recognized when it is written again. One that is still loading is
   * kept: the next one would take as long on a busy machine, and none would ever begin.
   */
  function giveUp(thread: WriterThread, limitMs: number): void {
    const left = [...thread.waiting.values()];
    thread.waiting.clear();
    thread.started.unref();
    if (thread.isLoaded) {
      if (worker === thread) worker = undefined;
      void thread.started.terminate();
    }
    for (const { reject } of left)
      reject(new GatewayError("store_failed", `the store of the recording did not answer within ${limitMs} ms`));
  }

  async function close(): Promise<void> {
    if (worker === undefined) return;
    const { started } = worker;
    try {
      await ask({ type: "close" }, closeMs);
    } finally {
      // A thread that hangs in a system call cannot be ended.
      const tooLong = Promise.withResolvers<void>();
      const stop = setTimer(closeMs, tooLong.resolve);
      await Promise.race([started.terminate(), tooLong.promise]);
      stop();
    }
  }

  return {
    append: async ({ capture, packs }) => {
      try {
        await ask({ type: "append", capture, packs }, appendMs());
      } catch (error) {
        if (!(error instanceof Error) || !gone.has(error)) throw error;
        // None of it is in a file that can be found, so another thread opens it again.
        await ask({ type: "append", capture, packs }, appendMs());
      }
    },
    prune: async (rules) => (await ask({ type: "prune", rules })) as PruneResult,
    close,
    [Symbol.asyncDispose]: close,
  };
}
