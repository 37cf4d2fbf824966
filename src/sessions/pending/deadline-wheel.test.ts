import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { createJumpingTime } from "../../../test/support/correlation.ts";
import { createFakeTime } from "../../../test/support/fake-time.ts";
import { DeadlineWheel } from "./deadline-wheel.ts";
import { Link } from "./link-list.ts";

interface Item {
  readonly deadline: number;
  firedAt: number | undefined;
}

function createWheel({ clock, setTimer }: Pick<ReturnType<typeof createJumpingTime>, "clock" | "setTimer">) {
  const wheel = new DeadlineWheel<Item>({
    clock,
    setTimer,
    due: (item, now) => {
      if (item.deadline > now) return item.deadline;
      item.firedAt = now;
      return undefined;
    },
  });
  return {
    wheel,
    file: (deadline: number): Link<Item> => {
      const link = new Link<Item>({ deadline, firedAt: undefined });
      wheel.file(link, deadline, clock.now());
      return link;
    },
  };
}

describe("the deadline wheel", () => {
  it("calls each item within a tick after its deadline and never before, near or far", async () => {
    const time = createFakeTime();
    const { wheel, file } = createWheel(time);
    const links = [1, 99, 100, 101, 51_100, 51_200, 51_201, 120_000].map(file);
    await time.advance(120_200);
    for (const { item } of links) {
      expect(item.firedAt).toBeGreaterThanOrEqual(item.deadline);
      expect(item.firedAt).toBeLessThan(item.deadline + 100);
    }
    expect(wheel.size).toBe(0);
  });

  it("[SC-050] has one timer however much is filed, and none when nothing is", () => {
    const time = createJumpingTime();
    const { wheel, file } = createWheel(time);
    expect(time.timers()).toBe(0);
    const links = Array.from({ length: 1000 }, (_, index) => file(2000 + index * 100));
    expect(time.timers()).toBe(1);
    for (const link of links) wheel.drop(link);
    expect(wheel.size).toBe(0);
    time.jump(100);
    expect(time.timers()).toBe(0);
  });

  it("catches up after the machine slept for longer than a round", () => {
    const time = createJumpingTime();
    const { file } = createWheel(time);
    const links = [2000, 30_000, 300_000, 3_000_000].map(file);
    time.jump(1_000_000);
    expect(links.map(({ item }) => item.firedAt)).toEqual([1_001_000, 1_001_000, 1_001_000, undefined]);
    time.jump(1_000_000);
    time.jump(1_000_000);
    expect(links[3]?.item.firedAt).toBe(3_001_000);
  });

  it("lets a callback drop, file and end other items", () => {
    const time = createJumpingTime();
    const fired: string[] = [];
    const links = new Map<string, Link<string>>();
    const wheel = new DeadlineWheel<string>({
      ...time,
      due: (item) => {
        fired.push(item);
        const b = links.get("b");
        if (item === "a" && b !== undefined) wheel.drop(b);
        if (item === "a") wheel.file(new Link("d"), time.clock.now(), time.clock.now());
        return undefined;
      },
    });
    for (const item of ["a", "b", "c"]) {
      const link = new Link(item);
      links.set(item, link);
      wheel.file(link, 1100, 1000);
    }
    time.jump(100);
    expect(fired).toEqual(["a", "c"]);
    time.jump(100);
    expect(fired).toEqual(["a", "c", "d"]);
    expect(wheel.size).toBe(0);
  });

  it("fires everything once, whatever the deadlines and the jumps of time", () => {
    const deadlines = fc.array(fc.integer({ min: 0, max: 200_000 }), { maxLength: 30 });
    const jumps = fc.array(fc.integer({ min: 1, max: 90_000 }), { minLength: 1, maxLength: 12 });
    fc.assert(
      fc.property(deadlines, jumps, (filed, jumped) => {
        const time = createJumpingTime();
        const { wheel, file } = createWheel(time);
        const links = filed.map((deadline) => file(deadline + 1000));
        for (const milliseconds of jumped) {
          time.jump(milliseconds);
          const now = time.clock.now();
          const missed = links.filter(({ item }) => item.firedAt === undefined && item.deadline + 100 <= now);
          const early = links.filter(({ item }) => (item.firedAt ?? Infinity) < item.deadline);
          expect([missed, early]).toEqual([[], []]);
        }
        expect(wheel.size).toBe(links.filter(({ item }) => item.firedAt === undefined).length);
      }),
    );
  });

  it("does nothing more once stopped", () => {
    const time = createJumpingTime();
    const { wheel, file } = createWheel(time);
    const link = file(1500);
    wheel.stop();
    time.jump(1000);
    file(5000);
    expect([time.timers(), link.item.firedAt]).toEqual([0, undefined]);
  });
});
