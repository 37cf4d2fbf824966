import { setTimeout as sleep } from "node:timers/promises";
import { isMainThread, parentPort, workerData, type MessagePort } from "node:worker_threads";

import { systemTimer } from "../../core/exchange.ts";
import { GatewayError } from "../../errors.ts";
import { readPackBuffer } from "../exchange-batcher.ts";
import type { RecordStore } from "./store-contract.ts";
import { openSqliteStore, StoreGoneError } from "./sqlite.ts";
import { goneId, loadedId, type WriterReply, type WriterRequest, type WriterTarget } from "./writer-thread.ts";

const idleMs = 200;
const indexBatch = 500;
/** How soon a store that was deleted or moved is noticed if nothing is written. */
const checkMs = 1000;

/** Opens the store of a writer thread. */
export async function openTargetStore(target: WriterTarget): Promise<RecordStore> {
  const deps = {
    wait: (milliseconds: number, signal: AbortSignal) => sleep(milliseconds, undefined, { signal }).catch(() => {}),
  };
  if (target.type === "sqlite") return openSqliteStore(target, deps);
  const { openPostgresStore } = await import("./postgres.ts");
  return openPostgresStore(target.url, deps);
}

/** Serves requests in order, and extends the text index while idle. */
export function serveWriter(
  port: Pick<MessagePort, "on" | "postMessage" | "close">,
  opened: Promise<RecordStore>,
): void {
  let stopIndexing: (() => void) | undefined;
  let isIndexing = false;
  let isClosed = false;
  let isUsable = true;
  /** The capture of the last batch, and how many frames of it were in a file that is gone. */
  let capture: string | undefined;
  let lostFrames = 0;
  let stopCheck = systemTimer(checkMs, check);

  function indexSoon(): void {
    stopIndexing?.();
    if (isClosed) return;
    stopIndexing = systemTimer(idleMs, () => {
      if (isIndexing) {
        indexSoon();
        return;
      }
      isIndexing = true;
      void opened
        .then((store) => store.index(indexBatch))
        .then((left) => {
          if (left > 0) indexSoon();
        })
        // Searches scan what is not indexed; the next batch tries again.
        .catch(() => {})
        .finally(() => {
          isIndexing = false;
        });
    });
  }

  async function end(store: RecordStore): Promise<void> {
    isClosed = true;
    stopIndexing?.();
    stopCheck();
    await store.close();
  }

  /** A store that is gone is closed before a new thread opens another at the same path. */
  async function endIfGone(error: unknown): Promise<void> {
    if (!(error instanceof GatewayError) || !(error.cause instanceof StoreGoneError) || !isUsable) return;
    isUsable = false;
    const store = await opened;
    if (error.cause.isFileGone) lostFrames = await framesIn(store);
    await end(store);
  }

  /** A deleted file can still be read through its open connection. */
  async function framesIn(store: RecordStore): Promise<number> {
    return capture === undefined ? 0 : store.storedFrames(capture).catch(() => 0);
  }

  function check(): void {
    stopCheck = systemTimer(checkMs, check);
    opened
      .then((store) => store.check())
      .catch(async (error: unknown) => {
        if (isClosed || !isUsable) return;
        await endIfGone(error);
        if (isUsable) return;
        const message = messageOf(error);
        port.postMessage({ id: goneId, ok: false, message, isGone: true, lostFrames } satisfies WriterReply);
        port.close();
      })
      // A store that cannot be closed is left alone.
      .catch(() => {});
  }

  async function perform(request: WriterRequest): Promise<unknown> {
    const store = await opened;
    switch (request.type) {
      case "append":
        capture = request.capture.id;
        await store.appendPacks({ capture: request.capture, packs: request.packs.flatMap(readPackBuffer) });
        indexSoon();
        return undefined;
      case "prune":
        return store.prune(request.rules);
      case "close":
        await end(store);
        return undefined;
      default:
        throw new TypeError("unknown request");
    }
  }

  opened.catch(() => {
    isUsable = false;
  });

  port.on("message", (request: WriterRequest) => {
    const answer = (message: WriterReply): void => {
      port.postMessage(message);
      // Without a store, end: the next request starts a new thread, which may be able to open it.
      if (request.type === "close" || !isUsable) port.close();
    };
    perform(request).then(
      (value) => {
        answer({ id: request.id, ok: true, value });
      },
      async (error: unknown) => {
        await endIfGone(error).catch(() => {});
        answer({ id: request.id, ok: false, message: messageOf(error), isGone: !isUsable, lostFrames });
      },
    );
  });
}

function messageOf(error: unknown): string {
  return error instanceof Error ? error.message : String(error);
}

if (!isMainThread && parentPort !== null && isTarget(workerData)) {
  parentPort.postMessage({ id: loadedId, ok: true, value: undefined } satisfies WriterReply, []);
  serveWriter(parentPort, openTargetStore(workerData));
}

/** This file may also be loaded in a thread of a test runner. */
function isTarget(value: unknown): value is WriterTarget {
  return typeof value === "object" && value !== null && "headgateWriter" in value;
}
