import { expect, it } from "vitest";

import { createFakeTime } from "../../test/support/fake-time.ts";
import { createPeerList } from "./peer-list.ts";
import { createSeals } from "../lib/keys/sealing.ts";
import { leaseMs } from "./store-access.ts";

const seals = createSeals([Buffer.alloc(32, 1)]);

function bench(node = "own", { peer: seal } = seals) {
  const time = createFakeTime();
  const list = createPeerList({
    clock: time.clock,
    node,
    seal,
    advertise: "http://own.example",
    configDigest: () => "digest",
  });
  const leaseOf = (of: string, url: string): readonly [string, string] => [
    of,
    seal.seal(Buffer.from(JSON.stringify([url, 0, "digest"])), `lease ${of}`),
  ];
  return { time, list, leaseOf };
}

it("reads what another writes", () => {
  const { list } = bench();
  const other = bench("other").list;
  list.read([["other", other.lease()]]);
  expect(list.peers.get("other")).toMatchObject({ url: "http://own.example", since: 0, config: "digest" });
});

it("says since when it holds a lease that it had lost", async () => {
  const { list, time } = bench();
  expect(list.wasLost(false)).toBe(false);
  expect(list.wasLost(true)).toBe(false);
  expect(list.since).toBe(0);
  await time.advance(1000);
  expect(list.wasLost(false)).toBe(true);
  expect(list.since).toBe(time.clock.wall());
  const reader = bench("reader").list;
  reader.read([["own", list.lease()]]);
  expect(reader.peers.get("own")?.since).toBe(list.since);
});

it("finds leases that were left behind at its address, at the start alone", () => {
  const { list, leaseOf } = bench();
  const leases = [leaseOf("killed", "http://own.example"), leaseOf("other", "http://other.example")];
  expect(list.leftBehind(leases)).toEqual(["killed"]);
  expect(list.leftBehind(leases)).toEqual([]);
});

it("forgets a gateway whose lease has ended, but not if the store has lost all of them, until they had time to come back", async () => {
  const { list, time, leaseOf } = bench();
  const both = [leaseOf("one", "http://one.example"), leaseOf("two", "")];
  list.wasLost(false);
  list.read(both);
  expect(list.peers.get("two")?.url).toBeUndefined();
  const [one, two] = ["one", "two"].map((node) => list.peers.get(node)?.gone);
  list.read(both.slice(0, 1));
  expect([...list.peers.keys()]).toEqual(["one"]);
  // Requests that wait for its answer are told.
  expect([one?.aborted, two?.aborted]).toEqual([false, true]);
  list.read(both);
  list.wasLost(false);
  list.read([]);
  expect([...list.peers.keys()]).toEqual(["one", "two"]);
  await time.advance(leaseMs);
  list.read(both.slice(1));
  expect([...list.peers.keys()]).toEqual(["two"]);
});

it("hands nothing to an address that no gateway wrote", () => {
  const { list, leaseOf } = bench();
  const stranger = bench("a", createSeals([Buffer.alloc(32, 2)]));
  list.read([
    ["a", JSON.stringify(["http://evil.example", 0, "digest"])],
    ["b", stranger.leaseOf("b", "http://evil.example")[1]],
    // A lease of another gateway.
    ["c", leaseOf("d", "http://evil.example")[1]],
    ["e", "garbage"],
    ["f", ""],
    leaseOf("g", "http://good.example"),
  ]);
  expect([...list.peers].map(([node, { url }]) => [node, url])).toEqual([
    ["a", undefined],
    ["b", undefined],
    ["c", undefined],
    ["e", undefined],
    ["f", undefined],
    ["g", "http://good.example"],
  ]);
});
