import { describe, expect, it } from "vitest";
import { canTransition, type CorrelationState, correlationStates, isFinal, transitions } from "./states.ts";

const names = Object.keys(correlationStates) as readonly CorrelationState[];

describe("the states of an exchange", () => {
  it("[SC-049] are the twelve, of which only pending and streaming are not final", () => {
    expect(names).toEqual([
      "pending",
      "streaming",
      "ok",
      "tool_error",
      "error",
      "input_required",
      "cancelled",
      "timed_out",
      "abandoned",
      "superseded",
      "evicted",
      "orphan",
    ]);
    expect(names.filter((name) => !isFinal(name))).toEqual(["pending", "streaming"]);
  });

  it("[SC-049] are never left once final", () => {
    const ways = names.filter(isFinal).flatMap((from) => names.filter((to) => canTransition(from, to)));
    expect(ways).toEqual([]);
  });

  it("can all be reached", () => {
    const reached = new Set(transitions.map(({ to }) => to));
    expect(names.filter((name) => !reached.has(name))).toEqual([]);
  });

  it("let a live exchange end in every way but as an orphan, and never go back to pending", () => {
    for (const from of ["pending", "streaming"] as const) {
      const ends = names.filter((to) => isFinal(to) && !canTransition(from, to));
      expect(ends).toEqual(["orphan"]);
      expect(canTransition(from, "pending")).toBe(false);
    }
  });
});
