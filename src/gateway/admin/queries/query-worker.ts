import { statSync } from "node:fs";
import { setTimeout as sleep } from "node:timers/promises";
import { isMainThread, type MessagePort, parentPort, workerData } from "node:worker_threads";

import { GatewayError } from "../../../errors.ts";
import type { ExchangeRecord } from "../../../recorder/contract.ts";
import { createCaptureReader } from "../../../recorder/store/capture-file.ts";
import { openSqliteReader } from "../../../recorder/store/sqlite.ts";
import type { RecordReader } from "../../../recorder/store/store-contract.ts";
import type { QueryReply, QueryRequest, QueryTarget } from "./query-thread.ts";
import { createTrafficQueries } from "./traffic-queries.ts";

const followMs = 250;
/**
 * The share of the thread's time for following new traffic, all filters together: watching must not slow down the
 * gateway.
 */
const busyShare = 1 / 200;
/** The newest exchanges of one look: a thousand a second are more than a person can read. */
const maxExchanges = 300;
/** A new file gets its tables within this time, also on a busy machine. */
const [maxOpenings, openAgainMs] = [100, 50];
/** How many exchanges go to the main thread at once. */
const maxBatch = 500;

/** Answers queries, each from the recordings that are stored at that moment. */
function serveQueries(port: MessagePort, target: QueryTarget): void {
  const following = new Map<number, AbortController>();
  let opened: { readonly reader: Promise<RecordReader>; readonly identity: string } | undefined;

  function reader(): Promise<RecordReader> {
    const identity = identityOf(target);
    if (opened?.identity === identity) return opened.reader;
    // The file was deleted or moved, and another one begun.
    void opened?.reader.then((old) => old.close()).catch(() => {});
    const own = openReader(target, () => following.size);
    opened = { reader: own, identity };
    own.catch(() => {
      opened = undefined;
    });
    return own;
  }

  async function perform(request: Extract<QueryRequest, { readonly type: "query" }>): Promise<unknown> {
    const queries = createTrafficQueries(await reader());
    switch (request.query) {
      case "exchanges":
        return queries.exchanges(...request.args);
      case "operation":
        return queries.operation(...request.args);
      case "figures":
        return queries.figures(...request.args);
      case "topology":
        return queries.topology(...request.args);
      case "sessions":
        return queries.sessions(...request.args);
      case "turns":
        return queries.turns(...request.args);
      case "drift":
        return queries.drift(...request.args);
      case "replay":
        return queries.replay(...request.args, (done) => {
          if (done % 500 === 0) port.postMessage({ id: request.id, type: "progress", done } satisfies QueryReply);
        });
    }
  }

  async function follow({ id, where }: Extract<QueryRequest, { readonly type: "follow" }>): Promise<void> {
    const stop = new AbortController();
    following.set(id, stop);
    let batch: ExchangeRecord[] = [];
    let isScheduled = false;
    const flush = (): void => {
      isScheduled = false;
      if (batch.length === 0) return;
      // Written as JSON here: the main thread only has to send it.
      port.postMessage({ id, type: "batch", count: batch.length, json: JSON.stringify(batch) } satisfies QueryReply);
      batch = [];
    };
    port.postMessage({ id, type: "batch", count: 0, json: "[]" } satisfies QueryReply);
    // The file only exists after the first message, which must be followed too.
    const isNew = identityOf(target) === missing;
    while (identityOf(target) === missing && !stop.signal.aborted) await pause(followMs, stop.signal);
    const own = await reader();
    if (isNew)
      batch.push(...(await own.exchanges({ order: "oldest", ...(where === undefined ? {} : { where }) })).exchanges);
    flush();
    const query = {
      signal: stop.signal,
      intervalMs: followMs,
      maxExchanges,
      onOmitted: (count: number) => port.postMessage({ id, type: "omitted", count } satisfies QueryReply),
      ...(where === undefined ? {} : { where }),
    };
    for await (const exchange of own.follow(query)) {
      batch.push(exchange);
      if (batch.length >= maxBatch) flush();
      else if (!isScheduled) {
        isScheduled = true;
        setImmediate(flush);
      }
    }
  }

  port.on("message", (request: QueryRequest) => {
    const { id } = request;
    if (request.type === "stop") {
      following.get(id)?.abort();
      following.delete(id);
      return;
    }
    (request.type === "query" ? perform(request) : follow(request).finally(() => following.delete(id))).then(
      (value) => {
        port.postMessage({ id, type: "done", value } satisfies QueryReply);
      },
      (thrown: unknown) => {
        const error = GatewayError.from(thrown);
        const message = error.code === "internal" && thrown instanceof Error ? thrown.message : error.message;
        port.postMessage({ id, type: "failed", code: error.code, message } satisfies QueryReply);
      },
    );
  });
}

/** What stands for a file that does not exist. */
const missing = "missing";

const pause = (milliseconds: number, signal: AbortSignal): Promise<void> =>
  sleep(milliseconds, undefined, { signal }).catch(() => {});

/** Waits longer after a look that took longer, so that all looks together keep to their share of the time. */
function createLookPause(followers: () => number): typeof pause {
  const lookedSince = new WeakMap<AbortSignal, number>();
  return async (milliseconds, signal) => {
    const tookMs = performance.now() - (lookedSince.get(signal) ?? performance.now());
    await pause(Math.max(milliseconds, (tookMs / busyShare) * followers()), signal);
    lookedSince.set(signal, performance.now());
  };
}

async function openReader(target: QueryTarget, followers: () => number): Promise<RecordReader> {
  const deps = { wait: createLookPause(followers) };
  if (identityOf(target) === missing) return createCaptureReader([], target.place);
  if (target.type === "sqlite") return openWritten(target.place, deps);
  return (await import("../../../recorder/store/postgres.ts")).openPostgresReader(target.place, deps);
}

/** Opens a file that may have been created a moment ago: its tables follow. */
async function openWritten(place: string, deps: Parameters<typeof openSqliteReader>[1]): Promise<RecordReader> {
  for (let tries = 1; ; tries++) {
    try {
      return await openSqliteReader(place, deps);
    } catch (error) {
      const hasNoTables = error instanceof GatewayError && error.code === "store_failed" && error.cause !== undefined;
      if (!hasNoTables || tries >= maxOpenings) throw error;
      await sleep(openAgainMs);
    }
  }
}

function identityOf({ type, place }: QueryTarget): string {
  if (type === "postgres") return place;
  const stats = statSync(place, { throwIfNoEntry: false });
  return stats === undefined ? missing : `${stats.dev} ${stats.ino}`;
}

if (!isMainThread && parentPort !== null && isTarget(workerData)) serveQueries(parentPort, workerData);

/** This file may also be loaded in a thread of a test runner. */
function isTarget(value: unknown): value is QueryTarget {
  return typeof value === "object" && value !== null && "headgateQueries" in value;
}
