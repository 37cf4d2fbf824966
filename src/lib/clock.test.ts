import { describe, expect, it } from "vitest";

import { createSharedPace } from "./clock.ts";

describe("a shared pace", () => {
  it("goes as fast as the share of one, also when others come and go, and never back", () => {
    let [time, sharers] = [1000, 1];
    const now = createSharedPace(
      () => time,
      () => sharers,
    );
    const after = (ms: number, count: number): number => {
      sharers = count;
      time += ms;
      return now();
    };
    expect([after(100, 1), after(100, 2), after(100, 4), after(100, 1), after(0, 9)]).toEqual([
      100, 150, 175, 275, 275,
    ]);
    expect(after(100, 0)).toBe(375);
  });
});
