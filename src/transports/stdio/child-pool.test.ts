import { randomUUID } from "node:crypto";

import { describe, expect, it, onTestFinished } from "vitest";

import { listen, noWatchdog } from "../../../test/support/stdio.ts";
import { GatewayError } from "../../errors.ts";
import { systemClock, systemTimer } from "../../core/exchange.ts";
import type { ChannelEvents } from "../transport.ts";
import { type ChildChannel, type ChildExit, startChild } from "./child.ts";
import { type ChildPool, type ChildPoolDeps, type ChildPoolOptions, createChildPool } from "./child-pool.ts";

const backoff = { firstMs: 100, maxMs: 1000, loopAfter: 3, forgetMs: 5000 };

/** A process that exists in name only. */
interface FakeChild {
  readonly events: ChannelEvents;
  readonly sent: string[];
  crash(): void;
}

interface World {
  readonly pool: ChildPool;
  readonly started: FakeChild[];
  readonly sizes: number[];
  readonly crashes: ChildExit[];
  /** Lets time pass and wakes whom it concerns. */
  readonly pass: (milliseconds: number) => Promise<void>;
}

function createWorld(options: Partial<ChildPoolOptions> = {}, deps: Partial<ChildPoolDeps> = {}): World {
  let now = 0;
  let timers: { at: number; callback: () => void }[] = [];
  const started: FakeChild[] = [];
  const sizes: number[] = [];
  const crashes: ChildExit[] = [];
  const pool = createChildPool(
    { maxChildren: 2, backoff, ...options },
    {
      start: async (events) => {
        const { channel, fake } = createFakeChild(events);
        started.push(fake);
        return channel;
      },
      clock: { now: () => now, wall: () => 0 },
      setTimer(milliseconds, callback) {
        const timer = { at: now + milliseconds, callback };
        timers.push(timer);
        return () => {
          timers = timers.filter((other) => other !== timer);
        };
      },
      onSize: (size) => sizes.push(size),
      onCrash: (exit) => crashes.push(exit),
      ...deps,
    },
  );
  return {
    pool,
    started,
    sizes,
    crashes,
    async pass(milliseconds) {
      now += milliseconds;
      for (const { at, callback } of timers) if (at <= now) callback();
      await new Promise<void>((resolve) => setImmediate(resolve));
    },
  };
}

function createFakeChild(events: ChannelEvents): { channel: ChildChannel; fake: FakeChild } {
  const sent: string[] = [];
  let exit: ChildExit | undefined;
  const end = (facts: ChildExit): void => {
    exit = facts;
    events.closed(new GatewayError("upstream_unreachable", "gone"));
  };
  const channel: ChildChannel = {
    incarnation: "one",
    pid: 4711,
    command: "server",
    get exit() {
      return exit;
    },
    send: (message) => void sent.push(message.toString()),
    close: async () => end({ code: 0, signal: undefined, byItself: false, stderr: [] }),
  };
  const crash = (): void => end({ code: 1, signal: undefined, byItself: true, stderr: ["no database"] });
  return { channel, fake: { events, sent, crash } };
}

async function rejection(promise: Promise<unknown>): Promise<GatewayError> {
  return promise.then(
    () => expect.fail("it was expected to reject"),
    (error: unknown) => GatewayError.from(error),
  );
}

describe("a pool of children", () => {
  it("starts nothing before somebody asks", () => {
    const { pool, started } = createWorld();
    expect(pool.size).toBe(0);
    expect(started).toHaveLength(0);
  });

  it("refuses more children than allowed, and says when to come again", async () => {
    const { pool, sizes } = createWorld();
    const [first] = await Promise.all([pool.open(listen()), pool.open(listen())]);
    const error = await rejection(pool.open(listen()));
    expect(error.code).toBe("overloaded");
    expect(error.details).toEqual({ limit: 2, retryAfter: 5 });
    await first.close("done");
    await pool.open(listen());
    expect(pool.size).toBe(2);
    expect(sizes).toEqual([1, 2, 1, 2]);
  });

  it("leaves children to others: one owner waits for its own to stop, and is refused when none does", async () => {
    const { pool, pass } = createWorld({ maxChildren: 4, maxPerOwner: 1 });
    const first = await pool.open(listen(), "ann");
    const second = pool.open(listen(), "ann");
    await pool.open(listen(), "bob");
    expect(pool.size).toBe(2);
    await first.close("done");
    await second;
    expect(pool.size).toBe(2);
    const third = rejection(pool.open(listen(), "ann"));
    await pass(10_000);
    expect(await third).toMatchObject({ code: "rate_limited", details: { limit: 1, retryAfter: 5 } });
  });

  it("gives a released child to the next one, also of another owner and at the limit", async () => {
    const { pool, started } = createWorld({ maxChildren: 1, maxPerOwner: 1 });
    const first = await pool.open(listen(), "ann");
    await first.release?.(false);
    const heard = listen();
    await pool.open(heard, "bob");
    started[0]?.events.message(Buffer.from("{}"));
    expect([started.length, pool.size, heard.messages]).toEqual([1, 1, ["{}"]]);
    expect(await rejection(pool.open(listen(), "ann"))).toMatchObject({ code: "overloaded" });
  });

  it("stops a released child that nobody takes", async () => {
    const { pool, pass } = createWorld();
    await (await pool.open(listen(), "ann")).release?.(true);
    await pass(5000);
    expect(pool.size).toBe(0);
  });

  it("replaces a released child that exits before it answers, and sends again what it was sent", async () => {
    const { pool, started, pass } = createWorld();
    await (await pool.open(listen())).release?.(true);
    const heard = listen();
    const lent = await pool.open(heard);
    await lent.send(Buffer.from("initialize"));
    started[0]?.crash();
    await pass(backoff.firstMs);
    started[1]?.events.message(Buffer.from("{}"));
    expect([started.length, started[1]?.sent, heard.order]).toEqual([2, ["initialize"], ["message"]]);
    started[1]?.crash();
    expect(heard.order).toEqual(["message", "closed"]);
  });

  it("hands the messages of a child to the one who asked for it", async () => {
    const { pool, started } = createWorld();
    const heard = listen();
    await pool.open(heard);
    started[0]?.events.message(Buffer.from("{}"));
    started[0]?.events.malformed(Buffer.from("x"), "no message");
    started[0]?.crash();
    expect(heard.order).toEqual(["message", "rubbish", "closed"]);
  });

  it("gives the place back when a start fails, with the start's own error", async () => {
    const { pool } = createWorld(
      { maxChildren: 1 },
      { start: () => Promise.reject(new GatewayError("upstream_unreachable", "not found")) },
    );
    for (let attempt = 0; attempt < 3; attempt += 1) {
      expect((await rejection(pool.open(listen()))).message).toBe("not found");
    }
    expect(pool.size).toBe(0);
  });

  it("starts anew after a crash, but waits longer each time", async () => {
    const { pool, started, crashes, pass } = createWorld();
    await pool.open(listen());
    started[0]?.crash();
    const second = pool.open(listen());
    await pass(99);
    expect(started).toHaveLength(1);
    await pass(1);
    await second;
    expect(started).toHaveLength(2);
    started[1]?.crash();
    const third = pool.open(listen());
    await pass(199);
    expect(started).toHaveLength(2);
    await pass(1);
    await third;
    expect(started).toHaveLength(3);
    expect(crashes).toHaveLength(2);
  });

  it("does not wait after a child was closed", async () => {
    const { pool, started } = createWorld();
    await (await pool.open(listen())).close("done");
    await pool.open(listen());
    expect(started).toHaveLength(2);
  });

  it("refuses at once while the server keeps crashing, naming the exit code, and its last words for the log", async () => {
    const { pool, started, pass } = createWorld();
    for (let crash = 0; crash < 3; crash += 1) {
      const opened = pool.open(listen());
      await pass(1000);
      await opened;
      started[crash]?.crash();
    }
    const error = await rejection(pool.open(listen()));
    expect(error.code).toBe("upstream_unreachable");
    expect(error.message).toBe(
      "the server process keeps crashing: 3 times in a row, last with exit code 1; the next try is in 1 s",
    );
    expect(error.details).toEqual({ retryAfter: 1 });
    expect(error.cause).toMatchObject({ message: "exit code 1, last on stderr:\nno database" });
    expect(pool.size).toBe(0);
  });

  it("tries one start at a time in a loop, and opens to all when it works", async () => {
    const { pool, started, pass } = createWorld();
    for (let crash = 0; crash < 3; crash += 1) {
      const opened = pool.open(listen());
      await pass(1000);
      await opened;
      started[crash]?.crash();
    }
    await pass(400);
    await pool.open(listen());
    expect((await rejection(pool.open(listen()))).message).toContain("keeps crashing");
    started[3]?.events.message(Buffer.from("{}"));
    await pool.open(listen());
    expect(started).toHaveLength(5);
  });

  it("ends all children when it is closed, wakes who waits, and starts none any more", async () => {
    const { pool, started, crashes } = createWorld({ maxChildren: 3 });
    const heard = listen();
    await pool.open(heard);
    await pool.open(listen());
    started[1]?.crash();
    const waiting = rejection(pool.open(listen()));
    await pool.close("the route was removed");
    expect(heard.order).toEqual(["closed"]);
    expect((await waiting).code).toBe("shutting_down");
    expect((await rejection(pool.open(listen()))).message).toContain("the route was removed");
    expect(pool.size).toBe(0);
    expect(crashes).toHaveLength(1);
    await pool.close("twice");
  });

  it("ends a child that was just being started when it was closed", async () => {
    const starting = Promise.withResolvers<void>();
    const { pool } = createWorld(
      {},
      {
        start: async (events) => {
          await starting.promise;
          return createFakeChild(events).channel;
        },
      },
    );
    const heard = listen();
    const opened = pool.open(heard);
    const closed = pool.close("the gateway stops");
    starting.resolve();
    await opened;
    await closed;
    expect(heard.order).toEqual(["closed"]);
    expect(pool.size).toBe(0);
  });

  it("names the exit code of a real server that crashes at its start", async () => {
    const environment = { PATH: process.env["PATH"] };
    const script = 'console.error("no such database"); process.exit(7)';
    const pool = createChildPool(
      { maxChildren: 1, backoff: { ...backoff, firstMs: 1000, loopAfter: 1 } },
      {
        start: (events) =>
          startChild({ command: process.execPath, args: ["-e", script] }, events, {
            environment,
            newId: randomUUID,
            setTimer: systemTimer,
            watchdog: noWatchdog,
          }),
        clock: systemClock,
        setTimer: systemTimer,
      },
    );
    onTestFinished(() => pool.close("the test is over"));
    const heard = listen();
    await pool.open(heard);
    await heard.whenClosed;
    const error = await rejection(pool.open(listen()));
    expect(error.message).toContain("last with exit code 7");
    expect(error.cause).toMatchObject({ message: "exit code 7, last on stderr:\nno such database" });
  });
});
