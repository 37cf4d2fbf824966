import { describe, expect, it } from "vitest";

import type { Peer } from "../../cluster/peer-list.ts";
import type { OwnerClaim, SharedStore } from "../../cluster/shared-store.ts";
import { createPrimaryStore } from "../../cluster/worker-store.ts";
import { createServerOwners, createSessionOwners } from "./session-owners.ts";

/** A gateway named `own` at a store that counts what it is asked. */
function bench() {
  const peers = new Map<string, Peer>();
  const claims: string[] = [];
  const claimed = new Map<string, string>();
  let isAway = false;
  const facts = { since: 0 };
  const isAlive = (node: string): boolean => node === "own" || peers.has(node);
  const store = {
    peers,
    get since() {
      return facts.since;
    },
    claim: async (id: string, { candidate, holder, leaving }: OwnerClaim) => {
      claims.push(`${id} for ${candidate}`);
      if (isAway) throw new Error("away");
      const present = claimed.get(id) ?? holder;
      if (present !== undefined && present !== leaving && isAlive(present)) return present;
      claimed.set(id, candidate);
      return candidate;
    },
  };
  const owners = createSessionOwners({
    node: "own",
    maxAgeMs: () => 1000,
    store: () => store as unknown as SharedStore,
  });
  return {
    claims,
    claimed,
    facts,
    owners,
    setAway: () => (isAway = true),
    join: (node: string, since = 0) =>
      peers.set(node, { url: `http://${node}.example`, since, config: "", gone: new AbortController().signal }),
    leave: (node: string) => peers.delete(node),
  };
}

describe("the owner of a session", () => {
  it("is the gateway that opened it while that holds its lease, without asking anybody", async () => {
    const { owners, join, claims, setAway } = bench();
    join("other");
    setAway();
    expect(await owners.ownerOf({ id: "a", openedBy: "own", openedAt: 5 })).toBe("own");
    expect(await owners.ownerOf({ id: "b", openedBy: "other", openedAt: 5 })).toBe("other");
    expect(claims).toEqual([]);
  });

  it("is the first to ask for it when its gateway has gone, also after that has come back", async () => {
    const { owners, join, claims } = bench();
    const session = { id: "a", openedBy: "other", openedAt: 5 };
    expect(await owners.ownerOf(session)).toBe("own");
    expect(await owners.ownerOf(session)).toBe("own");
    join("other", 10);
    expect(await owners.ownerOf(session)).toBe("own");
    expect(claims).toEqual(["a for own"]);
    expect(await owners.ownerOf({ ...session, id: "b" })).toBe("other");
    expect(await owners.ownerOf({ ...session, id: "c", openedAt: 10 })).toBe("other");
    expect(claims).toEqual(["a for own", "b for other"]);
  });

  it("is asked for again when the lease of the one that took it over was lost, too", async () => {
    const { owners, join, leave, claimed } = bench();
    const session = { id: "a", openedBy: "first", openedAt: 5 };
    join("second", 0);
    claimed.set("a", "second");
    expect(await owners.ownerOf(session)).toBe("second");
    leave("second");
    expect(await owners.ownerOf(session)).toBe("own");
    join("second", 20);
    expect(await owners.ownerOf(session)).toBe("own");
  });

  it("is not this gateway without asking, once its own lease was lost", async () => {
    const { owners, join, facts, claimed, setAway } = bench();
    join("other");
    facts.since = 10;
    claimed.set("a", "other");
    expect(await owners.ownerOf({ id: "a", openedBy: "own", openedAt: 5 })).toBe("other");
    setAway();
    const failed = owners.ownerOf({ id: "b", openedBy: "own", openedAt: 5 });
    await expect(failed).rejects.toMatchObject({ code: "store_failed", details: { retryAfter: 2 } });
  });
});

describe("the successor of an owner", () => {
  const session = { id: "a", openedBy: "other", openedAt: 5 };

  it("is the owner itself while its lease lasts, if it only cannot be reached", async () => {
    const { owners, join, leave } = bench();
    join("other");
    expect(await owners.successorOf("a", "other", { isLeaving: false })).toBe("other");
    leave("other");
    expect(await owners.successorOf("a", "other", { isLeaving: false })).toBe("own");
  });

  it("is this gateway if the owner shuts down, also while that still has its lease", async () => {
    const { owners, join, claimed } = bench();
    join("other");
    expect(await owners.successorOf("a", "other", { isLeaving: true })).toBe("own");
    expect(await owners.ownerOf(session)).toBe("own");
    claimed.set("b", "third");
    join("third");
    expect(await owners.successorOf("b", "other", { isLeaving: true })).toBe("third");
  });

  it("is another gateway for an owner that shuts down itself", async () => {
    const { owners, join } = bench();
    join("other");
    expect(await owners.successorOf("a", "own", { isLeaving: true, candidate: "other" })).toBe("other");
  });
});

describe("the worker that runs a server for several callers", () => {
  it("is the same for a worker that starts long after, as long as it lives", async () => {
    let now = 0;
    const clock = { now: () => now, wall: () => now };
    const primary = createPrimaryStore(clock);
    const join = (node: string) => {
      let others: readonly string[] = [];
      const calls = primary.connect({ peers: (urls) => (others = [...urls.keys()]), sessionEnded: () => {} });
      calls.enter(node, `http://${node}`);
      const store = {
        since: 0,
        get peers() {
          return new Map(others.map((name) => [name, { since: 0 }]));
        },
        claim: async (...args: Parameters<typeof calls.claim>) => calls.claim(...args),
      };
      const owner = createServerOwners({ node, store: () => store as unknown as SharedStore });
      return { owner, end: () => calls.exit() };
    };
    const [one, two] = [join("one"), join("two")];
    expect([await one.owner("files"), await two.owner("files")]).toEqual(["one", "one"]);
    now = 365 * 86_400_000;
    expect(await join("three").owner("files")).toBe("one");
    one.end();
    expect(await two.owner("files")).toBe("two");
  });
});
