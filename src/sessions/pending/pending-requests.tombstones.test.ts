import fc from "fast-check";
import { describe, expect, it } from "vitest";

import { tombstoneKey, Tombstones } from "./pending-requests.ts";

describe("tombstones", () => {
  it("return how and when a key ended, and which entry had it", () => {
    const tombstones = new Tombstones(10, 1000);
    tombstones.add("a", { number: 1, state: "superseded", endedAt: 1 });
    tombstones.add("a", { number: 2, state: "ok", endedAt: 2.5 });
    expect(tombstones.find("a", 20)).toEqual({ number: 2, state: "ok", endedAt: 2.5 });
    expect(tombstones.find("b", 20)).toBeUndefined();
  });

  it("keep nothing of the entry but its number, state and time", () => {
    const tombstones = new Tombstones(10, 1000);
    const entry = { number: 1, state: "ok", endedAt: 0, payload: "a whole message" } as const;
    tombstones.add("a", entry);
    expect(tombstones.find("a", 0)).toEqual({ number: 1, state: "ok", endedAt: 0 });
  });

  it("tell scopes, directions, ids and tokens apart", () => {
    const keys = [1, 11].flatMap((number) =>
      (["client-to-server", "server-to-client"] as const).flatMap((direction) =>
        (["id", "token"] as const).flatMap((kind) =>
          ["n:1", "s:1", "s:id"].map((key) => tombstoneKey({ number }, direction, kind, key)),
        ),
      ),
    );
    expect(new Set(keys).size).toBe(keys.length);
  });

  it("[SC-052] are forgotten after their time", () => {
    const tombstones = new Tombstones(10, 600_000);
    tombstones.add("a", { number: 1, state: "ok", endedAt: 5 });
    expect(tombstones.find("a", 600_005)?.number).toBe(1);
    expect(tombstones.find("a", 600_006)).toBeUndefined();
  });

  it("[SC-052] are bounded: the newest half is always kept, and never more than the capacity", () => {
    fc.assert(
      fc.property(fc.array(fc.integer({ min: 0, max: 9 })), fc.integer({ min: 0, max: 8 }), (added, capacity) => {
        const tombstones = new Tombstones(capacity, 1000);
        for (const [number, id] of added.entries()) tombstones.add(`${id}`, { number, state: "ok", endedAt: 0 });
        const newestFirst = [...new Set(added.toReversed())];
        for (const id of newestFirst.slice(0, Math.ceil(capacity / 2))) {
          expect(tombstones.find(`${id}`, 0)?.number).toBe(added.lastIndexOf(id));
        }
        expect(tombstones.size).toBeLessThanOrEqual(capacity);
      }),
    );
  });
});
