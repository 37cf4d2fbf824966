import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { type CorrelationState, correlationStates } from "./states.ts";
import { Tombstones } from "./tombstones.ts";

const stateNames = Object.keys(correlationStates) as readonly CorrelationState[];

describe("tombstones", () => {
  it("give back how and when a key ended, and which entry had it", () => {
    const tombstones = new Tombstones(10, 1000);
    for (const [number, state] of stateNames.entries()) {
      tombstones.add(1, `n:${number}`, { number, state, endedAt: number + 0.5 });
      expect(tombstones.find(1, `n:${number}`, 20)).toEqual({ number, state, endedAt: number + 0.5 });
    }
  });

  it("are told apart by space and by the type of the key", () => {
    const tombstones = new Tombstones(10, 1000);
    tombstones.add(1, "n:1", { number: 1, state: "ok", endedAt: 0 });
    expect([tombstones.find(2, "n:1", 0), tombstones.find(1, "s:1", 0), tombstones.find(-2, "n:1", 0)]).toEqual([
      undefined,
      undefined,
      undefined,
    ]);
  });

  it("give the latest ending of a key that ended twice", () => {
    const tombstones = new Tombstones(10, 1000);
    tombstones.add(1, "n:1", { number: 1, state: "superseded", endedAt: 1 });
    tombstones.add(1, "n:1", { number: 2, state: "ok", endedAt: 2 });
    expect(tombstones.find(1, "n:1", 3)?.number).toBe(2);
  });

  it("[SC-052] are forgotten after their time", () => {
    const tombstones = new Tombstones(10, 600_000);
    tombstones.add(1, "n:1", { number: 1, state: "ok", endedAt: 5 });
    expect(tombstones.find(1, "n:1", 600_005)?.number).toBe(1);
    expect(tombstones.find(1, "n:1", 600_006)).toBeUndefined();
  });

  it("[SC-052] are bounded: the oldest gives way, whatever comes", () => {
    const keys = fc.array(fc.tuple(fc.integer({ min: 0, max: 2 }), fc.integer({ min: 0, max: 9 })));
    fc.assert(
      fc.property(keys, fc.integer({ min: 0, max: 8 }), (added, capacity) => {
        const tombstones = new Tombstones(capacity, 1000);
        for (const [number, [space, id]] of added.entries()) {
          tombstones.add(space, `n:${id}`, { number, state: "ok", endedAt: 0 });
        }
        const kept = added.map(([space, id], number) => ({ space, id, number })).slice(-capacity || added.length);
        for (const [space, id] of added) {
          const newest = kept.findLast((one) => one.space === space && one.id === id);
          expect(tombstones.find(space, `n:${id}`, 0)?.number).toBe(newest?.number);
        }
        expect(tombstones.size).toBe(Math.min(capacity, added.length));
      }),
    );
  });
});
