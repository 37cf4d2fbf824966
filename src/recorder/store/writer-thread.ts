import { extname } from "node:path";
import { Worker } from "node:worker_threads";

import { GatewayError } from "../../errors.ts";
import type { CaptureRecord } from "../contract.ts";
import type { PackBuffer } from "../exchange-batcher.ts";
import type { PackBufferBatch } from "../recorder.ts";
import type { PruneResult, PruneRules } from "./store-contract.ts";

/** The store that a thread writes to. */
export type WriterTarget =
  | {
      readonly headgateWriter: true;
      readonly type: "sqlite";
      readonly file: string;
      readonly isDurable?: boolean;
      readonly maxPages?: number;
    }
  | { readonly headgateWriter: true; readonly type: "postgres"; readonly url: string };

/** What the thread is asked for. */
export type WriterRequest =
  | {
      readonly id: number;
      readonly type: "append";
      readonly capture: CaptureRecord;
      readonly packs: readonly PackBuffer[];
    }
  | { readonly id: number; readonly type: "prune"; readonly rules: PruneRules }
  | { readonly id: number; readonly type: "close" };

/** What it answers. */
export type WriterReply =
  | { readonly id: number; readonly ok: true; readonly value: unknown }
  | { readonly id: number; readonly ok: false; readonly message: string; readonly isGone: boolean };

/** A thread that writes recordings, so that no message waits for a disk. */
export interface RecordWriter extends AsyncDisposable {
  append(batch: PackBufferBatch): Promise<void>;
  prune(rules: PruneRules): Promise<PruneResult>;
  /** Writes what was begun and ends the thread. */
  close(): Promise<void>;
}

interface PendingReply {
  readonly resolve: (value: unknown) => void;
  readonly reject: (error: GatewayError) => void;
}

/** A thread and who waits for its answers. */
interface WriterThread {
  readonly started: Worker;
  readonly waiting: Map<number, PendingReply>;
}

/**
 * Without a bound the thread's garbage would be let grow far beyond its batches. What is young may take as much as one
 * batch leaves behind, so that next to nothing of it is alive when it is looked through.
 */
const threadLimits = { maxYoungGenerationSizeMb: 24, maxOldGenerationSizeMb: 192 };

type WriterCommand = WriterRequest extends infer One ? (One extends WriterRequest ? Omit<One, "id"> : never) : never;

/** Starts the thread. One that cannot open its store, or dies, is started anew by the next request. */
export function startWriter(target: WriterTarget): RecordWriter {
  let worker: WriterThread | undefined;
  let requests = 0;

  function start(): WriterThread {
    const waiting = new Map<number, PendingReply>();
    // Our own file beside this one, as source or built.
    const file = new URL(`./writer-worker${extname(import.meta.url)}`, import.meta.url);
    const started = new Worker(file, {
      workerData: target,
      name: "headgate recorder",
      resourceLimits: threadLimits,
    });
    // What waits to be written does not keep the process alive: closing writes it.
    started.unref();
    started.on("message", (answer: WriterReply) => {
      const waiter = waiting.get(answer.id);
      waiting.delete(answer.id);
      if (!answer.ok && answer.isGone && worker === thread) worker = undefined;
      if (answer.ok) waiter?.resolve(answer.value);
      else waiter?.reject(new GatewayError("store_failed", answer.message));
    });
    const gone = (cause?: unknown): void => {
      if (worker === thread) worker = undefined;
      const left = [...waiting.values()];
      waiting.clear();
      for (const { reject } of left)
        reject(new GatewayError("store_failed", "the thread that writes recordings has ended", { cause }));
    };
    started.once("error", gone);
    started.once("exit", gone);
    const thread = { started, waiting };
    return thread;
  }

  function ask(request: WriterCommand): Promise<unknown> {
    worker ??= start();
    const { started, waiting } = worker;
    const id = requests++;
    // As long as somebody waits for an answer, the process does too.
    started.ref();
    return new Promise<unknown>((resolve, reject) => {
      waiting.set(id, { resolve, reject });
      started.postMessage({ id, ...request }, []);
    }).finally(() => {
      if (waiting.size === 0) started.unref();
    });
  }

  async function close(): Promise<void> {
    if (worker === undefined) return;
    const { started } = worker;
    try {
      await ask({ type: "close" });
    } finally {
      await started.terminate();
    }
  }

  return {
    append: async ({ capture, packs }) => {
      await ask({ type: "append", capture, packs });
    },
    prune: async (rules) => (await ask({ type: "prune", rules })) as PruneResult,
    close,
    [Symbol.asyncDispose]: close,
  };
}
