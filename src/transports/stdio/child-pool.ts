import { GatewayError } from "../../errors.ts";
import type { Clock, SetTimer } from "../../core/exchange.ts";
import type { ChannelEvents } from "../transport.ts";
import { type ChildChannel, type ChildExit, exitCause, exitText } from "./child.ts";

/** The bounds of one route's server processes. */
export interface ChildPoolOptions {
  /** Processes that may exist at once, those that start and end included. */
  readonly maxChildren: number;
  readonly backoff?: RestartBackoffOptions;
}

/** What a pool needs of the world around it. */
export interface ChildPoolDeps {
  /** Starts one process, as `startChild` does. */
  readonly start: (events: ChannelEvents) => Promise<ChildChannel>;
  readonly clock: Clock;
  readonly setTimer: SetTimer;
  /** Told how many processes there are, whenever that changes. */
  readonly onSize?: (size: number) => void;
  /** Told of each process that ended by itself. */
  readonly onCrash?: (exit: ChildExit) => void;
}

/** The server processes of one route. */
export interface ChildPool {
  /** Processes that exist or are being started. */
  readonly size: number;
  /**
   * Starts a process for a new scope. After a crash it waits a while first. Rejects with `overloaded` when there is
   * no room, with the start's own error, or with the crash when the server does not stay up.
   */
  open(events: ChannelEvents): Promise<ChildChannel>;
  /** Ends all processes and refuses new ones; resolves when they have gone. */
  close(reason: string): Promise<void>;
}

/** A process that gives its place back soon: the best guess for when to come again. */
const fullRetrySeconds = 5;

/** Makes an empty pool; nothing is started before somebody asks. */
export function createChildPool(options: ChildPoolOptions, deps: ChildPoolDeps): ChildPool {
  const { maxChildren } = options;
  const { clock, setTimer } = deps;
  const backoff = createRestartBackoff(options.backoff ?? defaultRestartBackoff, clock);
  const children = new Set<ChildChannel>();
  const sleepers = new Set<() => void>();
  const starts = new Set<Promise<unknown>>();
  let size = 0;
  let lastExit: ChildExit | undefined;
  let closed: Promise<void> | undefined;
  let closeReason = "";

  function resize(by: 1 | -1): void {
    size += by;
    deps.onSize?.(size);
  }

  /** Waits until a start may be tried; close wakes everybody. */
  async function awaitTurn(): Promise<void> {
    while (closed === undefined && backoff.waitMs > 0) {
      if (backoff.isLoop) throw loopError(backoff.crashes, backoff.waitMs, lastExit);
      const { promise, resolve } = Promise.withResolvers<void>();
      const cancel = setTimer(backoff.waitMs, resolve);
      sleepers.add(resolve);
      await promise;
      cancel();
      sleepers.delete(resolve);
    }
    if (closed !== undefined) throw closedError();
    backoff.trying();
  }

  async function startOne(events: ChannelEvents): Promise<ChildChannel> {
    let child: ChildChannel | undefined;
    child = await deps.start({
      message(bytes) {
        backoff.working();
        events.message(bytes);
      },
      malformed: (bytes, reason) => events.malformed(bytes, reason),
      closed(error) {
        if (child !== undefined) left(child);
        events.closed(error);
      },
    });
    children.add(child);
    return child;
  }

  function left(child: ChildChannel): void {
    children.delete(child);
    resize(-1);
    const { exit } = child;
    if (exit?.byItself !== true) return;
    lastExit = exit;
    backoff.crashed();
    deps.onCrash?.(exit);
  }

  async function openOne(events: ChannelEvents): Promise<ChildChannel> {
    try {
      await awaitTurn();
      return await startOne(events);
    } catch (error) {
      resize(-1);
      throw GatewayError.from(error);
    }
  }

  async function closeAll(reason: string): Promise<void> {
    for (const wake of sleepers) wake();
    await Promise.allSettled(starts);
    await Promise.all([...children].map((child) => child.close(reason)));
  }

  function closedError(): GatewayError {
    return new GatewayError("shutting_down", `no server process is started any more: ${closeReason}`);
  }

  return {
    get size() {
      return size;
    },
    async open(events) {
      if (closed !== undefined) throw closedError();
      if (size >= maxChildren) throw fullError(maxChildren);
      resize(1);
      const start = openOne(events);
      starts.add(start);
      try {
        return await start;
      } finally {
        starts.delete(start);
      }
    },
    close(reason) {
      if (closed === undefined) closeReason = reason;
      closed ??= closeAll(reason);
      return closed;
    },
  };
}

function fullError(limit: number): GatewayError {
  return new GatewayError("overloaded", `all ${limit} server processes of this route are in use`, {
    details: { limit, retryAfter: fullRetrySeconds },
  });
}

function loopError(crashes: number, waitMs: number, exit: ChildExit | undefined): GatewayError {
  const seconds = Math.max(1, Math.ceil(waitMs / 1000));
  const how = exit === undefined ? "" : ` with ${exitText(exit)}`;
  return new GatewayError(
    "upstream_unreachable",
    `the server process does not stay up: it ended ${crashes} times in a row, last${how}; the next try is in ${seconds} s`,
    {
      details: { retryAfter: seconds },
      ...(exit === undefined ? {} : { cause: exitCause(exit) }),
    },
  );
}

/** How long a server that keeps ending is left alone. */
export interface RestartBackoffOptions {
  /** After the first crash; it doubles with each that follows. */
  readonly firstMs: number;
  readonly longestMs: number;
  /** So many crashes are a loop: from then on callers are refused instead of kept waiting. */
  readonly loopAfter: number;
  /** Crashes further apart than this do not add up. */
  readonly forgetMs: number;
}

/** The memory of a server's crashes. */
export interface RestartBackoff {
  /** Milliseconds until a start may be tried again. */
  readonly waitMs: number;
  /** Crashes that followed each other. */
  readonly crashes: number;
  readonly isLoop: boolean;
  /** A process ended by itself. */
  crashed(): void;
  /** A start is being tried. In a loop others are to wait for its outcome. */
  trying(): void;
  /** A process works: nobody need wait, though the next crash still adds to those before. */
  working(): void;
}

/** A quarter of a second, doubled up to half a minute; five crashes are a loop, a quiet minute clears the memory. */
const defaultRestartBackoff: RestartBackoffOptions = {
  firstMs: 250,
  longestMs: 30_000,
  loopAfter: 5,
  forgetMs: 60_000,
};

/** Makes the memory of a server that has not crashed yet. */
export function createRestartBackoff(options: RestartBackoffOptions, clock: Clock): RestartBackoff {
  const { firstMs, longestMs, loopAfter, forgetMs } = options;
  let crashes = 0;
  let lastCrash = Number.NEGATIVE_INFINITY;
  let nextTry = Number.NEGATIVE_INFINITY;

  function forgetOld(): void {
    if (clock.now() - lastCrash > forgetMs) crashes = 0;
  }

  function holdOff(): void {
    nextTry = clock.now() + Math.min(firstMs * 2 ** (crashes - 1), longestMs);
  }

  return {
    get waitMs() {
      return Math.max(0, nextTry - clock.now());
    },
    get crashes() {
      forgetOld();
      return crashes;
    },
    get isLoop() {
      forgetOld();
      return crashes >= loopAfter;
    },
    crashed() {
      forgetOld();
      crashes += 1;
      lastCrash = clock.now();
      holdOff();
    },
    trying() {
      forgetOld();
      if (crashes >= loopAfter) holdOff();
    },
    working() {
      nextTry = Number.NEGATIVE_INFINITY;
    },
  };
}
