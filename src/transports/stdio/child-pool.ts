import { GatewayError } from "../../errors.ts";
import type { Clock, SetTimer } from "../../lib/clock.ts";
import { KeyedCounter } from "../../lib/keyed-counter.ts";
import type { Channel, ChannelEvents } from "../transport.ts";
import { type ChildChannel, type ChildExit, exitCause, exitText } from "./child.ts";
import { type ChildUser, createSpareChildren } from "./spare-children.ts";

export interface ChildPoolOptions {
  /** Most processes at once, including those starting and stopping. */
  readonly maxChildren: number;
  /** Most processes of one owner; all by default. */
  readonly maxPerOwner?: number;
  readonly backoff?: RestartBackoffOptions;
}

export interface ChildPoolDeps {
  /** Starts one process, as `startChild` does. */
  readonly start: (events: ChannelEvents) => Promise<ChildChannel>;
  readonly clock: Clock;
  readonly setTimer: SetTimer;
  /** Called with the number of processes whenever it changes. */
  readonly onSize?: (size: number) => void;
  /** Called for each process that exited without being stopped. */
  readonly onCrash?: (exit: ChildExit) => void;
}

/** The server processes of one route. */
export interface ChildPool {
  /** Processes that exist or are being started. */
  readonly size: number;
  /**
   * Starts a process for a new scope, after a delay if the last one crashed or the owner's last one is still stopping.
   * Rejects with `overloaded` or `rate_limited` at a limit, with the error of the start, or with the last crash if the
   * server keeps crashing. A process that was released is given out before another is started.
   */
  open(events: ChannelEvents, owner?: string): Promise<Channel>;
  /** Stops all processes and refuses new ones; resolves when all have exited. */
  close(reason: string): Promise<void>;
}

/** `Retry-After` when all processes are in use. */
const fullRetrySeconds = 5;

/** How long a new process waits for one of the same owner that is stopping; longer than a stop takes. */
const ownerWaitMs = 10_000;

/** How long a released process waits for its next user. */
const spareMs = 5000;

/** Creates an empty pool; processes are started on demand. */
export function createChildPool(options: ChildPoolOptions, deps: ChildPoolDeps): ChildPool {
  const { maxChildren, maxPerOwner = maxChildren } = options;
  const { clock, setTimer } = deps;
  const backoff = createRestartBackoff(options.backoff ?? defaultRestartBackoff, clock);
  const children = new Set<ChildChannel>();
  const owners = new KeyedCounter();
  const spares = createSpareChildren({ setTimer, keepMs: spareMs });
  const pauses = createPauses(setTimer);
  const starts = new Set<Promise<unknown>>();
  let size = 0;
  let lastExit: ChildExit | undefined;
  let closed: Promise<void> | undefined;
  let closeReason = "";

  function resize(by: 1 | -1): void {
    size += by;
    deps.onSize?.(size);
  }

  /** Counts one more process of an owner, when there is room for it. */
  async function enter(owner: string): Promise<void> {
    const until = clock.now() + ownerWaitMs;
    while (!owners.add(owner, maxPerOwner)) {
      const leftMs = until - clock.now();
      if (closed !== undefined) throw closedError();
      if (leftMs <= 0) throw ownFullError(maxPerOwner);
      await pauses.wait(leftMs);
    }
  }

  /** Waits until a start may be tried, or the pool is closed. */
  async function waitForBackoff(): Promise<void> {
    while (closed === undefined && backoff.waitMs > 0) {
      if (backoff.isLoop) throw loopError(backoff.crashes, backoff.waitMs, lastExit);
      await pauses.wait(backoff.waitMs);
    }
    if (closed !== undefined) throw closedError();
    backoff.trying();
  }

  async function startOne(first: ChildUser): Promise<Channel> {
    const handover = spares.createHandover(first, (owner) => {
      if (owner !== undefined) owners.remove(owner);
      pauses.endAll();
    });
    let child: ChildChannel | undefined;
    child = await deps.start({
      message(bytes) {
        backoff.working();
        handover.events.message(bytes);
      },
      malformed: (bytes, reason, unread) => handover.events.malformed(bytes, reason, unread),
      closed(error) {
        if (child !== undefined) onExit(child, handover.owner);
        handover.events.closed(error);
      },
    });
    children.add(child);
    return handover.channelOf(child);
  }

  function leave(owner: string | undefined): void {
    resize(-1);
    if (owner !== undefined) owners.remove(owner);
    pauses.endAll();
  }

  function onExit(child: ChildChannel, owner: string | undefined): void {
    children.delete(child);
    leave(owner);
    const { exit } = child;
    if (exit?.byItself !== true) return;
    lastExit = exit;
    backoff.crashed();
    deps.onCrash?.(exit);
  }

  async function openOne(user: ChildUser): Promise<Channel> {
    try {
      await waitForBackoff();
      return await startOne(user);
    } catch (error) {
      leave(user.owner);
      throw GatewayError.from(error);
    }
  }

  async function closeAll(reason: string): Promise<void> {
    pauses.endAll();
    await Promise.allSettled(starts);
    await Promise.all([...children].map((child) => child.close(reason)));
  }

  function closedError(): GatewayError {
    return new GatewayError("shutting_down", `no more server processes are started: ${closeReason}`);
  }

  async function open(events: ChannelEvents, owner?: string): Promise<Channel> {
    if (closed !== undefined) throw closedError();
    if (owner !== undefined) await enter(owner);
    const spare = spares.take({ events, owner }, (own) => open(own, owner));
    if (spare !== undefined) return spare;
    if (size >= maxChildren) {
      if (owner !== undefined) owners.remove(owner);
      throw fullError(maxChildren);
    }
    resize(1);
    const start = openOne({ events, owner });
    starts.add(start);
    try {
      return await start;
    } finally {
      starts.delete(start);
    }
  }

  return {
    get size() {
      return size;
    },
    open,
    close(reason) {
      if (closed === undefined) closeReason = reason;
      closed ??= closeAll(reason);
      return closed;
    },
  };
}

/** Waits that can be ended early. */
function createPauses(setTimer: SetTimer) {
  const waiting = new Set<() => void>();
  return {
    async wait(milliseconds: number): Promise<void> {
      const { promise, resolve } = Promise.withResolvers<void>();
      const cancel = setTimer(milliseconds, resolve);
      waiting.add(resolve);
      await promise;
      cancel();
      waiting.delete(resolve);
    },
    endAll(): void {
      for (const resolve of waiting) resolve();
    },
  };
}

function fullError(limit: number): GatewayError {
  const details = { limit, retryAfter: fullRetrySeconds };
  return new GatewayError("overloaded", `all ${limit} server processes of this route are in use`, { details });
}

function ownFullError(limit: number): GatewayError {
  const text = `this caller uses ${limit} server processes of this route already`;
  return new GatewayError("rate_limited", text, { details: { limit, retryAfter: fullRetrySeconds } });
}

function loopError(crashes: number, waitMs: number, exit: ChildExit | undefined): GatewayError {
  const seconds = Math.max(1, Math.ceil(waitMs / 1000));
  const how = exit === undefined ? "" : ` with ${exitText(exit)}`;
  return new GatewayError(
    "upstream_unreachable",
    `the server process keeps crashing: ${crashes} times in a row, last${how}; the next try is in ${seconds} s`,
    { details: { retryAfter: seconds }, ...(exit === undefined ? {} : { cause: exitCause(exit) }) },
  );
}

/** Delays between restarts of a server that keeps crashing. */
interface RestartBackoffOptions {
  /** After the first crash; doubles with each further one. */
  readonly firstMs: number;
  readonly maxMs: number;
  /** After this many crashes callers are refused instead of kept waiting. */
  readonly loopAfter: number;
  /** Crashes further apart than this are not counted together. */
  readonly forgetMs: number;
}

const defaultRestartBackoff: RestartBackoffOptions = { firstMs: 250, maxMs: 30_000, loopAfter: 5, forgetMs: 60_000 };

/** Counts the crashes of a server. */
export function createRestartBackoff(options: RestartBackoffOptions, clock: Clock) {
  const { firstMs, maxMs, loopAfter, forgetMs } = options;
  let crashes = 0;
  let lastCrash = Number.NEGATIVE_INFINITY;
  let nextTry = Number.NEGATIVE_INFINITY;

  function forgetOld(): void {
    if (clock.now() - lastCrash > forgetMs) crashes = 0;
  }

  function postpone(): void {
    nextTry = clock.now() + Math.min(firstMs * 2 ** (crashes - 1), maxMs);
  }

  return {
    /** Milliseconds until a start may be tried again. */
    get waitMs(): number {
      return Math.max(0, nextTry - clock.now());
    },
    /** Crashes in a row. */
    get crashes(): number {
      forgetOld();
      return crashes;
    },
    get isLoop(): boolean {
      forgetOld();
      return crashes >= loopAfter;
    },
    crashed(): void {
      forgetOld();
      crashes += 1;
      lastCrash = clock.now();
      postpone();
    },
    /** A start is being tried. After too many crashes other starts wait for its outcome. */
    trying(): void {
      forgetOld();
      if (crashes >= loopAfter) postpone();
    },
    /** A process works: the next start has no delay, but the next crash still counts as consecutive. */
    working(): void {
      nextTry = Number.NEGATIVE_INFINITY;
    },
  };
}
