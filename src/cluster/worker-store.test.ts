import { EventEmitter } from "node:events";

import { describe, expect, it } from "vitest";

import { GatewayError } from "../errors.ts";
import { createProcessSeals } from "../lib/keys/sealing.ts";
import { connectCalls } from "./process-calls.ts";
import type { SharedStoreEvents } from "./shared-store.ts";
import { createPrimaryStore, createWorkerStore, type StoreCalls, type StoreNotices } from "./worker-store.ts";

/** The two ends of a channel; what is sent is copied, as between processes. */
function channelPair() {
  const ends = [new EventEmitter(), new EventEmitter()] as const;
  const end = (own: EventEmitter, other: EventEmitter) => ({
    send: (message: unknown) => queueMicrotask(() => other.emit("message", structuredClone(message))),
    onMessage: (listener: (message: unknown) => void) => own.on("message", listener),
    onGone: (listener: () => void) => own.once("gone", listener),
  });
  return { near: end(ends[0], ends[1]), far: end(ends[1], ends[0]), cut: () => ends[0].emit("gone") };
}

function bench() {
  let now = 0;
  const clock = { now: () => now, wall: () => now };
  const primary = createPrimaryStore(clock);

  /** One worker at the store. */
  async function join(node: string) {
    const ended: string[] = [];
    const { near, far, cut } = channelPair();
    const notices: StoreNotices = {
      peers: (urls) => void remote.peers(urls),
      sessionEnded: (id) => void remote.sessionEnded(id),
    };
    const own = primary.connect(notices);
    const remote = connectCalls<StoreCalls, StoreNotices>(far, own);
    const calls = connectCalls<StoreNotices, StoreCalls>(near, {
      peers: (urls) => worker.peers(urls),
      sessionEnded: (id) => worker.sessionEnded(id),
    });
    const worker = createWorkerStore(calls);
    const events: SharedStoreEvents = {
      sessionEnded: (id) => void ended.push(id),
      reconnected: () => {},
      leaseLost: () => {},
      peersRead: () => {},
      changed: () => {},
    };
    const store = worker.open({
      node,
      seal: createProcessSeals().peer,
      advertise: `http://${node}`,
      clock,
      configDigest: () => "",
      commandMs: 250,
      setTimer: () => () => {},
      events,
    });
    await store.ready();
    return {
      store,
      calls,
      ended,
      end: () => {
        cut();
        own.exit();
      },
    };
  }
  return { join, advance: (ms: number) => (now += ms) };
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
    advance(500);
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
    advance(1000);
    expect(await take(1, 9)).toEqual([2]);
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
