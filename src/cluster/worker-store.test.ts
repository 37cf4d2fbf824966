import { EventEmitter } from "node:events";

import { describe, expect, it } from "vitest";

import { createFakeTime } from "../../test/support/fake-time.ts";
import { GatewayError } from "../errors.ts";
import { createProcessSeals } from "../lib/keys/sealing.ts";
import { connectCalls } from "./process-calls.ts";
import type { SharedStore, SharedStoreEvents } from "./shared-store.ts";
import {
  createPrimaryStore,
  createWorkerStore,
  storeCallLimits,
  type StoreCalls,
  type StoreNotices,
} from "./worker-store.ts";

/** The two ends of a channel; what is sent is copied, as between processes. */
function channelPair() {
  const ends = [new EventEmitter(), new EventEmitter()] as const;
  /** What the far end has not read, while it is stopped. */
  let unread: (() => void)[] | undefined;
  const end = (own: EventEmitter, other: EventEmitter) => ({
    send: (message: unknown) => {
      const arrive = (): void => void other.emit("message", structuredClone(message));
      if (unread !== undefined && own === ends[0]) unread.push(arrive);
      else queueMicrotask(arrive);
    },
    onMessage: (listener: (message: unknown) => void) => own.on("message", listener),
    onGone: (listener: () => void) => own.once("gone", listener),
  });
  return {
    near: end(ends[0], ends[1]),
    far: end(ends[1], ends[0]),
    cut: () => ends[0].emit("gone"),
    stop: () => (unread = []),
    /** How many messages the far end has not read. */
    unread: () => unread?.length ?? 0,
    goOn: () => {
      const late = unread ?? [];
      unread = undefined;
      for (const arrive of late) arrive();
    },
  };
}

function bench() {
  const { clock, setTimer, advance, jump } = createFakeTime(0);
  const primary = createPrimaryStore(clock);

  /** One worker at the store. */
  async function join(node: string) {
    const ended: string[] = [];
    const changes: boolean[] = [];
    const { near, far, cut, stop, goOn, unread } = channelPair();
    const notices: StoreNotices = {
      peers: (urls) => void remote.peers(urls),
      sessionEnded: (id) => void remote.sessionEnded(id),
    };
    const own = primary.connect(notices);
    const remote = connectCalls<StoreCalls, StoreNotices>(far, own);
    const answers: StoreNotices = {
      peers: (urls) => worker.peers(urls),
      sessionEnded: (id) => worker.sessionEnded(id),
    };
    const bounds = { limitMs: storeCallLimits, setTimer };
    const calls = connectCalls<StoreNotices, StoreCalls>(near, answers, bounds);
    const worker = createWorkerStore(calls);
    const events: SharedStoreEvents = {
      sessionEnded: (id) => void ended.push(id),
      reconnected: () => {},
      leaseLost: () => {},
      peersRead: () => {},
      changed: (isUp) => void changes.push(isUp),
    };
    const store = worker.open({
      node,
      seal: createProcessSeals().peer,
      advertise: `http://${node}`,
      clock,
      configDigest: () => "",
      commandMs: 250,
      setTimer,
      events,
    });
    await store.ready();
    return {
      store,
      calls,
      ended,
      changes,
      stop,
      goOn,
      unread,
      end: () => {
        cut();
        own.exit();
      },
    };
  }
  return { join, advance, jump };
}

describe("what the workers of one gateway share", () => {
  it("tells each of the others, until they end", async () => {
    const { join } = bench();
    const [one, two] = [await join("one"), await join("two")];
    await two.store.hasEnded([]);
    const peer = one.store.peers.get("two");
    expect(peer).toMatchObject({ url: "http://two", since: 0 });
    two.end();
    await one.store.hasEnded([]);
    expect([...one.store.peers]).toEqual([]);
    expect(peer?.gone.aborted).toBe(true);
    await expect(two.store.hasEnded([])).rejects.toThrow("has ended");
  });

  it("gives a session to the first that claims it, and to another when that one has ended", async () => {
    const { join } = bench();
    const [one, two] = [await join("one"), await join("two")];
    expect(await one.store.claim("s", { candidate: "one", ttlMs: 1000 })).toBe("one");
    expect(await two.store.claim("s", { candidate: "two", ttlMs: 1000 })).toBe("one");
    expect(await two.store.ownersOf(["s", "t"])).toEqual(["one", undefined]);
    one.end();
    expect(await two.store.ownersOf(["s"])).toEqual([undefined]);
    expect(await two.store.claim("s", { candidate: "two", ttlMs: 1000 })).toBe("two");
  });

  it.each([365 * 86_400_000, -3_600_000])("is the same when the clock jumps by %i ms and back", async (jumped) => {
    const { join, advance, jump } = bench();
    const [one, two] = [await join("one"), await join("two")];
    await one.store.claim("s", { candidate: "one", ttlMs: 1000 });
    await one.store.endSession("t", 1000);
    jump(jumped);
    expect(await two.store.ownersOf(["s"])).toEqual(["one"]);
    expect(await two.store.hasEnded(["t"])).toEqual([true]);
    jump(-jumped);
    expect(await two.store.hasEnded(["t"])).toEqual([true]);
    await advance(1000);
    expect(await two.store.ownersOf(["s"])).toEqual([undefined]);
    expect(await two.store.hasEnded(["t"])).toEqual([false]);
  });

  it("leaves a session to the one that holds it while that lives and stays", async () => {
    const { join } = bench();
    const [, two] = [await join("one"), await join("two")];
    const claim = { candidate: "two", holder: "one", ttlMs: 1000 };
    expect(await two.store.claim("s", claim)).toBe("one");
    expect(await two.store.claim("s", { ...claim, leaving: "one" })).toBe("two");
    expect(await two.store.claim("t", { ...claim, holder: "gone" })).toBe("two");
  });

  it("remembers sessions that have ended until they would have expired, and tells the others", async () => {
    const { join, advance } = bench();
    const [one, two] = [await join("one"), await join("two")];
    await one.store.endSession("s", 500);
    expect(await two.store.hasEnded(["s", "t"])).toEqual([true, false]);
    expect([one.ended, two.ended]).toEqual([[], ["s"]]);
    await advance(500);
    expect(await two.store.hasEnded(["s"])).toEqual([false]);
  });

  it("knows who started a task; a known task stays with its owner", async () => {
    const { join } = bench();
    const [one, two] = [await join("one"), await join("two")];
    await one.store.noteTask("t", { node: "one", owner: "ann" }, 1000);
    await two.store.noteTask("t", { node: "two", owner: "eve" }, 1000);
    expect(await two.store.findTasks(["t", "u"])).toEqual([{ node: "one", owner: "ann" }, undefined]);
  });

  it("knows whether a session is in the memory of another worker that is alive", async () => {
    const { join } = bench();
    const [one, two] = [await join("one"), await join("two")];
    await two.store.join("s", ["one", "two"], 1000);
    expect(await one.store.leave("s")).toBe(true);
    two.end();
    expect(await one.store.leave("s")).toBe(false);
  });

  it("gives out no more tokens than one gateway would", async () => {
    const { join, advance } = bench();
    const stores = [(await join("one")).store, (await join("two")).store];
    const take = async (worker: number, count: number, key = "ann") =>
      stores[worker]?.takeTokens([{ key, perSecond: 2, burst: 5, count }]);
    expect(await take(0, 3)).toEqual([3]);
    expect(await take(1, 3)).toEqual([2]);
    expect(await take(0, 1)).toEqual([0]);
    expect(await take(0, 9, "bob")).toEqual([5]);
    await advance(1000);
    expect(await take(1, 9)).toEqual([2]);
  });
});

const session = "s";
/** Every question of a worker. */
const questions: Readonly<Record<string, (store: SharedStore) => Promise<unknown>>> = {
  endSession: (store) => store.endSession(session, 60_000),
  hasEnded: (store) => store.hasEnded([session]),
  claim: (store) => store.claim(session, { candidate: "one", ttlMs: 60_000 }),
  ownersOf: (store) => store.ownersOf([session]),
  join: (store) => store.join(session, ["one"], 60_000),
  leave: (store) => store.leave(session),
  takeTokens: (store) => store.takeTokens([{ key: "ann", perSecond: 1, burst: 1, count: 1 }]),
  noteTask: (store) => store.noteTask("t", { node: "one", owner: "ann" }, 60_000),
  findTasks: (store) => store.findTasks(["t"]),
};

describe("a process that does not answer its workers", () => {
  const away = { code: "store_failed", message: expect.stringContaining("unavailable") };

  it("is asked each of these", async () => {
    const { join } = bench();
    const { store } = await join("one");
    const notAsked = new Set(["ready", "refresh", "peers", "since", "close"]);
    expect(Object.keys(store).filter((name) => !notAsked.has(name))).toEqual(Object.keys(questions));
  });

  it.each(Object.entries(questions))(
    "%s fails after two seconds, then at once, and works again when it goes on",
    async (_name, ask) => {
      const { join, advance } = bench();
      const one = await join("one");
      one.stop();
      const failed = Promise.all([1, 2, 3].map(() => expect(ask(one.store)).rejects.toMatchObject(away)));
      await advance(2000);
      await failed;
      await expect(ask(one.store)).rejects.toMatchObject(away);
      expect(one.changes).toEqual([false]);
      one.goOn();
      await advance(2000);
      await ask(one.store);
      expect(one.changes).toEqual([false, true]);
    },
  );

  it("is not sent more and more", async () => {
    const { join, advance } = bench();
    const one = await join("one");
    one.stop();
    for (let round = 0; round < 500; round++) {
      const failed = Promise.all(
        Array.from({ length: 10 }, () => expect(one.store.hasEnded([session])).rejects.toMatchObject(away)),
      );
      await advance(4000);
      await failed;
    }
    expect(one.unread()).toBeLessThan(120);
    one.goOn();
    await advance(5000);
    expect(await one.store.hasEnded([session])).toEqual([false]);
  });

  it("has heard everything when it goes on, also that a session has ended", async () => {
    const { join, advance } = bench();
    const [one, two] = [await join("one"), await join("two")];
    one.stop();
    const ending = one.store.endSession(session, 60_000);
    await Promise.all([expect(ending).rejects.toMatchObject(away), advance(2000)]);
    expect(await two.store.hasEnded([session])).toEqual([false]);
    one.goOn();
    expect(await two.store.hasEnded([session])).toEqual([true]);
    expect(two.ended).toEqual([session]);
  });
});

interface Refusing {
  refuse(): void;
}

describe("calls between processes", () => {
  const refusing: Refusing = {
    refuse: () => {
      throw new GatewayError("rate_limited", "too many", { details: { retryAfter: 2 } });
    },
  };

  it("bring an error with its code and details", async () => {
    const { near, far } = channelPair();
    connectCalls<Refusing, Refusing>(far, refusing);
    const remote = connectCalls<Refusing, Refusing>(near, refusing);
    const error = { code: "rate_limited", message: "too many", details: { retryAfter: 2 } };
    await expect(remote.refuse()).rejects.toMatchObject(error);
  });

  it("fail when the other process ends before it answers, and at once after that", async () => {
    const { near, cut } = channelPair();
    const remote = connectCalls<Refusing, Refusing>(near, refusing);
    const waiting = remote.refuse();
    cut();
    await expect(waiting).rejects.toMatchObject({ code: "store_failed" });
    await expect(remote.refuse()).rejects.toMatchObject({ code: "store_failed" });
  });
});
