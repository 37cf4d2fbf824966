import fc from "fast-check";
import { describe, expect, it } from "vitest";

import { editDistance, closestName } from "./closest-name.ts";

describe("the nearest name", () => {
  const names = ["upstream", "timeouts", "mode", "forwardHeaders", "cors"];

  it.each([
    ["upstrem", "upstream"],
    ["usptream", "upstream"],
    ["Upstream", "upstream"],
    ["forward_headers", "forwardHeaders"],
    ["forward-header", "forwardHeaders"],
    ["timeout", "timeouts"],
    ["core", "cors"],
  ])("for %s is %s", (typed, meant) => {
    expect(closestName(typed, names)).toBe(meant);
  });

  it.each(["banana", "x", "routes", ""])("for %j is none", (typed) => {
    expect(closestName(typed, names)).toBeUndefined();
  });
});

describe("the edit distance", () => {
  it.each([
    ["", "", 0],
    ["abc", "abc", 0],
    ["abc", "", 3],
    ["kitten", "sitting", 3],
    ["ab", "ba", 1],
    ["hots", "host", 1],
  ])("of %j and %j is %d", (from, to, distance) => {
    expect(editDistance(from, to)).toBe(distance);
  });

  it("is the same both ways, and never more than the longer text", () => {
    fc.assert(
      fc.property(fc.string({ maxLength: 12 }), fc.string({ maxLength: 12 }), (one, other) => {
        const distance = editDistance(one, other);
        expect(distance).toBe(editDistance(other, one));
        expect(distance).toBeLessThanOrEqual(Math.max(one.length, other.length));
        expect(distance === 0).toBe(one === other);
      }),
    );
  });
});
