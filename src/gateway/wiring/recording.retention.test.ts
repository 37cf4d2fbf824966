import { describe, expect, it } from "vitest";

import { createFakeTime, settled } from "../../../test/support/fake-time.ts";
import type { PruneResult, PruneRules } from "../../recorder/store/store-contract.ts";
import { createSteadyTime, openRetention } from "./recording.ts";

const day = 86_400_000;
const minute = 60_000;

function open(bytes: number) {
  const time = createFakeTime();
  const pruned: { readonly rules: PruneRules; readonly done: PromiseWithResolvers<PruneResult> }[] = [];
  const warned: string[] = [];
  const retention = openRetention(
    { maxAge: 7 * day, maxBytes: bytes, routes: { short: day } },
    {
      ...time,
      writer: {
        prune: (rules) => {
          const done = Promise.withResolvers<PruneResult>();
          pruned.push({ rules, done });
          return done.promise;
        },
      },
      log: { warn: (_fields: unknown, text?: string) => void warned.push(text ?? "") },
    },
  );
  const wrote = (characters: number): void => {
    const wire = {
      bytes: new Uint8Array(new SharedArrayBuffer(characters)),
      numbers: new Float64Array(new SharedArrayBuffer(96)),
      contexts: [],
      outcomes: [],
    };
    retention.wrote({ packs: [wire] });
  };
  const finish = async (index: number): Promise<void> => {
    pruned[index]?.done.resolve({ exchanges: 0, frames: 0, bytes: 0 });
    await settled();
  };
  return { time, pruned, warned, retention, wrote, finish };
}

describe("the time that retention goes by", () => {
  const steady = () => {
    const at = { wall: Date.UTC(2026, 0, 1), now: 0 };
    const time = createSteadyTime({ wall: () => at.wall, now: () => at.now });
    const look = (elapsed: number, jump = 0): number => {
      at.now += elapsed;
      at.wall += elapsed + jump;
      return time();
    };
    return { at, look };
  };

  it("does not follow a clock that jumps ahead, and back again", () => {
    const { at, look } = steady();
    const before = at.wall;
    expect(look(10 * minute, 30 * day)).toBe(before + 10 * minute);
    expect(look(10 * minute)).toBe(before + 20 * minute);
    expect(look(10 * minute, -30 * day)).toBe(before + 30 * minute);
  });

  it("follows it once it has run on for an hour, and a clock that is set back at once", () => {
    const { at, look } = steady();
    look(10 * minute, 30 * day);
    for (let count = 0; count < 5; count++) expect(look(10 * minute)).toBeLessThan(at.wall);
    expect(look(10 * minute)).toBe(at.wall);
    look(10 * minute, -5 * day);
    expect(look(10 * minute)).toBe(at.wall);
  });

  it("begins to wait again with every further jump", () => {
    const { at, look } = steady();
    for (let count = 0; count < 50; count++) expect(look(10 * minute, day)).toBeLessThan(at.wall);
  });
});

describe("the retention of recordings", () => {
  it("takes out what is too old or too much, soon and then every ten minutes", async () => {
    const { time, pruned, finish } = open(1_000_000);
    await time.advance(10_000);
    const now = time.clock.wall();
    expect(pruned.map(({ rules }) => rules)).toEqual([
      { before: now - 7 * day, maxBytes: 1_000_000, beforeByRoute: { short: now - day } },
    ]);
    await finish(0);
    await time.advance(10 * minute);
    expect(pruned).toHaveLength(2);
  });

  it("looks at the size as soon as an eighth of it was written, not before", async () => {
    const { pruned, wrote, finish } = open(8_000_000);
    wrote(400_000);
    expect(pruned).toHaveLength(0);
    wrote(600_000);
    expect(pruned).toHaveLength(1);
    await finish(0);
    wrote(400_000);
    expect(pruned).toHaveLength(1);
    wrote(600_000);
    expect(pruned).toHaveLength(2);
  });

  it("never takes out twice at once, however much is written and however long it takes", async () => {
    const { time, pruned, wrote, finish } = open(1_000_000);
    wrote(200_000);
    wrote(200_000);
    await time.advance(25 * minute);
    expect(pruned).toHaveLength(1);
    await finish(0);
    wrote(1);
    expect(pruned).toHaveLength(2);
  });

  it("says what cannot be taken out, and tries again", async () => {
    const { time, pruned, warned } = open(1_000_000);
    await time.advance(10_000);
    pruned[0]?.done.reject(new Error("the disk is gone"));
    await settled();
    expect(warned).toEqual(["failed to delete old recordings"]);
    await time.advance(10 * minute);
    expect(pruned).toHaveLength(2);
  });

  it("does nothing more when it is stopped, and does not complain of a store that closes", async () => {
    const { time, pruned, warned, retention, wrote } = open(1_000_000);
    wrote(200_000);
    retention.stop();
    pruned[0]?.done.reject(new Error("the thread that writes recordings has ended"));
    await settled();
    wrote(200_000);
    await time.advance(20 * minute);
    expect([pruned.length, warned, time.pending()]).toEqual([1, [], 0]);
  });
});
