import fc from "fast-check";
import { describe, expect, it } from "vitest";

import { Tombstones, tombstoneSpace } from "./tombstones.ts";

describe("tombstones", () => {
  it("return how and when a key ended last, and which entry had it", () => {
    const tombstones = new Tombstones(10, 1000);
    tombstones.add(1, "a", { number: 1, state: "superseded", endedAt: 1 });
    tombstones.add(1, "a", { number: 2, state: "ok", endedAt: 2.5 });
    expect(tombstones.find(1, "a", 20)).toEqual({ number: 2, state: "ok", endedAt: 2.5 });
    expect(tombstones.find(1, "b", 20)).toBeUndefined();
    expect(tombstones.find(2, "a", 20)).toBeUndefined();
  });

  it("tell scopes, directions, ids and tokens apart", () => {
    const spaces = [1, 2, 11].flatMap((number) =>
      (["client-to-server", "server-to-client"] as const).flatMap((direction) =>
        (["id", "token"] as const).map((kind) => tombstoneSpace({ number }, direction, kind)),
      ),
    );
    expect(new Set(spaces).size).toBe(spaces.length);
  });

  it("[SC-052] are forgotten after their time", () => {
    const tombstones = new Tombstones(10, 600_000);
    tombstones.add(1, "a", { number: 1, state: "ok", endedAt: 5 });
    expect(tombstones.find(1, "a", 600_005)?.number).toBe(1);
    expect(tombstones.find(1, "a", 600_006)).toBeUndefined();
  });

  it("[SC-052] are bounded: the last ones up to the capacity are kept, and nothing else", () => {
    const key = fc.oneof(fc.integer({ min: 0, max: 9 }).map(String), fc.string({ maxLength: 3 }));
    const ending = fc.tuple(fc.integer({ min: 0, max: 2 }), key);
    fc.assert(
      fc.property(fc.array(ending, { maxLength: 40 }), fc.integer({ min: 0, max: 9 }), (added, capacity) => {
        const tombstones = new Tombstones(capacity, 1000);
        for (const [number, [space, name]] of added.entries())
          tombstones.add(space, name, { number, state: "ok", endedAt: 0 });
        for (const [space, name] of added) {
          const last = added.findLastIndex(([otherSpace, other]) => otherSpace === space && other === name);
          const isKept = last >= added.length - capacity;
          expect(tombstones.find(space, name, 0)?.number).toBe(isKept ? last : undefined);
        }
        expect(tombstones.size).toBe(Math.min(added.length, capacity));
      }),
    );
  });
});
