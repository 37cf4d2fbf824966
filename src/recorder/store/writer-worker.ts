import { setTimeout as sleep } from "node:timers/promises";
import { isMainThread, parentPort, workerData, type MessagePort } from "node:worker_threads";

import { systemTimer } from "../../core/exchange.ts";
import { GatewayError } from "../../errors.ts";
import { readPackBuffer } from "../exchange-batcher.ts";
import type { RecordStore } from "./store-contract.ts";
import type { FileDamage } from "../../lib/keys/database-files.ts";
import { openSqliteStore, StoreGoneError } from "./sqlite.ts";
import { goneId, loadedId, type WriterReply, type WriterRequest, type WriterTarget } from "./writer-thread.ts";

const idleMs = 200;
const indexBatch = 500;
/** How soon it is noticed that others changed the files of the store if nothing is written. */
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
  /** The capture of the last batch, how many of its frames this thread wrote, and how many of them are gone. */
  let capture: string | undefined;
  let writtenFrames = 0;
  let gone: { readonly lostFrames: number } | undefined;
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
    gone = { lostFrames: await lostFrames(store, error.cause.damage) };
    await end(store);
  }

  /** How many frames of this capture nobody will find. */
  async function lostFrames(store: RecordStore, damage: FileDamage): Promise<number> {
    switch (damage) {
      case "log moved":
        return 0;
      // A deleted file can still be read through its open connection.
      case "moved":
      case "emptied":
        return capture === undefined ? 0 : store.storedFrames(capture).catch(() => writtenFrames);
      // Read again, the log has what is left of it.
      case "log overwritten":
        return capture === undefined
          ? 0
          : Math.max(0, writtenFrames - (await store.storedFrames(capture).catch(() => 0)));
      // The connection reads what others wrote.
      case "overwritten":
      case "damaged":
        return writtenFrames;
    }
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
        port.postMessage({ id: goneId, ok: false, message, isEnded: true, gone } satisfies WriterReply);
        port.close();
      })
      // A store that cannot be closed is left alone.
      .catch(() => {});
  }

  async function append(
    store: RecordStore,
    request: Extract<WriterRequest, { readonly type: "append" }>,
  ): Promise<void> {
    const packs = request.packs.flatMap(readPackBuffer);
    if (capture !== request.capture.id) writtenFrames = 0;
    capture = request.capture.id;
    await store.appendPacks({ capture: request.capture, packs });
    for (const { count } of packs) writtenFrames += count;
  }

  async function perform(request: WriterRequest): Promise<unknown> {
    const store = await opened;
    switch (request.type) {
      case "append":
        await append(store, request);
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
        answer({ id: request.id, ok: false, message: messageOf(error), isEnded: !isUsable, gone });
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
