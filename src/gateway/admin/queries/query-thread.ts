import { extname } from "node:path";
import { Worker } from "node:worker_threads";

import type { Config } from "../../../config/config.ts";
import { type ErrorCode, GatewayError } from "../../../errors.ts";
import type { SetTimer } from "../../../lib/clock.ts";
import type { FilterCondition } from "../../../recorder/contract.ts";
import { createSharedFollowing, type FollowedBatch, type FollowListener } from "./shared-following.ts";
import type { TrafficQueries } from "./traffic-queries.ts";

/** The recordings that the thread reads. */
export interface QueryTarget {
  readonly headgateQueries: true;
  readonly type: "sqlite" | "postgres";
  /** The file, or the URL of the database. */
  readonly place: string;
}

type ArgumentsOf<Name extends keyof TrafficQueries> = TrafficQueries[Name] extends (
  ...args: [...infer Args, (done: number) => void]
) => unknown
  ? Args
  : Parameters<TrafficQueries[Name]>;

type QueryCall = {
  [Name in keyof TrafficQueries]: {
    readonly id: number;
    readonly type: "query";
    readonly query: Name;
    readonly args: Name extends "replay" ? ArgumentsOf<"replay"> : Parameters<TrafficQueries[Name]>;
  };
}[keyof TrafficQueries];

/** A message to the thread. */
export type QueryRequest =
  | QueryCall
  | { readonly id: number; readonly type: "follow"; readonly where: FilterCondition | undefined }
  | { readonly id: number; readonly type: "stop" };

/** A message from it. */
export type QueryReply =
  | { readonly id: number; readonly type: "done"; readonly value: unknown }
  | { readonly id: number; readonly type: "progress"; readonly done: number }
  | ({ readonly id: number; readonly type: "batch" } & FollowedBatch)
  | { readonly id: number; readonly type: "omitted"; readonly count: number }
  | { readonly id: number; readonly type: "failed"; readonly code: ErrorCode; readonly message: string };

/** Reads recordings in a thread of its own: a search over a million exchanges must not hold up a message. */
export interface QueryThread extends TrafficQueries {
  /** Exchanges from now on, in batches, until the signal aborts. */
  follow(where: FilterCondition | undefined, listener: FollowListener, signal: AbortSignal): Promise<void>;
  /** Starts the thread, so that the first query need not wait for it. */
  prepare(): void;
  close(): Promise<void>;
}

/** Memory of the thread, so that a search cannot take that of the gateway. */
const threadLimits = { maxYoungGenerationSizeMb: 32, maxOldGenerationSizeMb: 512 };
/** A thread without queries ends after this time. */
const idleMs = 120_000;

interface Waiting {
  readonly resolve: (value: unknown) => void;
  readonly reject: (error: GatewayError) => void;
  readonly onProgress?: (done: number) => void;
  readonly follower?: FollowListener;
}

interface Thread {
  readonly worker: Worker;
  readonly waiting: Map<number, Waiting>;
}

/** Where the recordings of a configuration are; undefined if nothing is recorded. */
export function queryTargetOf({ record }: Config): QueryTarget | undefined {
  if (record === undefined || record === false) return undefined;
  if (record.postgres !== undefined) return { headgateQueries: true, type: "postgres", place: record.postgres };
  return record.file === undefined ? undefined : { headgateQueries: true, type: "sqlite", place: record.file };
}

/** Makes the queries over a gateway's recordings. The thread starts with the first one and ends when it has been idle. */
export function createQueryThread(target: QueryTarget | undefined, setTimer: SetTimer): QueryThread {
  let current: Thread | undefined;
  let stopIdle: (() => void) | undefined;
  let ids = 0;

  function start(place: QueryTarget): Thread {
    const waiting = new Map<number, Waiting>();
    const file = new URL(`./query-worker${extname(import.meta.url)}`, import.meta.url);
    const worker = new Worker(file, { workerData: place, name: "headgate queries", resourceLimits: threadLimits });
    worker.unref();
    const thread = { worker, waiting };
    worker.on("message", (reply: QueryReply) => {
      const one = waiting.get(reply.id);
      if (reply.type === "progress") one?.onProgress?.(reply.done);
      else if (reply.type === "batch") one?.follower?.onBatch(reply);
      else if (reply.type === "omitted") one?.follower?.onOmitted(reply.count);
      else {
        waiting.delete(reply.id);
        if (reply.type === "done") one?.resolve(reply.value);
        else one?.reject(new GatewayError(reply.code === "internal" ? "store_failed" : reply.code, reply.message));
        if (waiting.size === 0) endWhenIdle(thread);
      }
    });
    const onEnd = (cause?: unknown): void => {
      if (current === thread) current = undefined;
      for (const { reject } of waiting.values())
        reject(new GatewayError("store_failed", "the thread that reads recordings ended", { cause }));
      waiting.clear();
    };
    worker.once("error", onEnd);
    worker.once("exit", onEnd);
    return thread;
  }

  function endWhenIdle(thread: Thread): void {
    stopIdle?.();
    stopIdle = setTimer(idleMs, () => {
      if (thread.waiting.size === 0 && current === thread) void close();
    });
  }

  function ask(
    request: QueryRequest extends infer One ? (One extends QueryRequest ? Omit<One, "id"> : never) : never,
    listeners: Pick<Waiting, "onProgress" | "follower"> = {},
    signal?: AbortSignal,
  ): Promise<unknown> {
    if (target === undefined)
      return Promise.reject(new GatewayError("not_found", "nothing is recorded: set `record` in the configuration"));
    stopIdle?.();
    const { worker, waiting } = (current ??= start(target));
    const id = ids++;
    return new Promise<unknown>((resolve, reject) => {
      waiting.set(id, { resolve, reject, ...listeners });
      worker.postMessage({ id, ...request }, []);
      signal?.addEventListener(
        "abort",
        () => {
          worker.postMessage({ id, type: "stop" } satisfies QueryRequest, []);
        },
        { once: true },
      );
    });
  }

  /** Asks for a query whose answer has the type that the worker returns for it. */
  const query =
    <Name extends Exclude<keyof TrafficQueries, "replay">>(name: Name) =>
    (...args: Parameters<TrafficQueries[Name]>): ReturnType<TrafficQueries[Name]> =>
      ask({ type: "query", query: name, args } as Omit<QueryCall, "id"> as never) as ReturnType<TrafficQueries[Name]>;

  async function close(): Promise<void> {
    stopIdle?.();
    const thread = current;
    current = undefined;
    await thread?.worker.terminate();
  }

  return {
    prepare: () => {
      if (target === undefined || current !== undefined) return;
      current = start(target);
      endWhenIdle(current);
    },
    exchanges: query("exchanges"),
    operation: query("operation"),
    figures: query("figures"),
    topology: query("topology"),
    sessions: query("sessions"),
    turns: query("turns"),
    drift: query("drift"),
    replay: (window, policies, onProgress) =>
      ask({ type: "query", query: "replay", args: [window, policies] }, { onProgress }) as ReturnType<
        TrafficQueries["replay"]
      >,
    follow: createSharedFollowing((where, follower, signal) => ask({ type: "follow", where }, { follower }, signal)),
    close,
  };
}
