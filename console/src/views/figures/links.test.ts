import { describe, expect, it } from "vitest";

import fc from "fast-check";

import { edgesOfCallers, edgesToServers, linksOf, serverOf, spread } from "./links.ts";

describe("the map", () => {
  const edges = [
    { principal: "ann", route: "work", upstream: "files", count: 2, errors: 1, refused: 0, p95Ms: 5 },
    { principal: "ann", route: "work", upstream: "mail", count: 3, errors: 0, refused: 0, p95Ms: 9 },
    { principal: "bob", route: "work", upstream: "mail", count: 4, errors: 0, refused: 0 },
    { principal: "bob", route: "demo", count: 1, errors: 0, refused: 1 },
  ];

  it("adds up what callers ask of routes, and routes of their servers", () => {
    expect(
      linksOf(
        edges,
        ({ principal }) => principal,
        ({ route }) => route,
      ),
    ).toEqual([
      { from: "ann", to: "work", count: 5, errors: 1, p95Ms: 9 },
      { from: "bob", to: "work", count: 4, errors: 0 },
      { from: "bob", to: "demo", count: 1, errors: 0 },
    ]);
    expect(linksOf(edges, ({ route }) => route, serverOf)).toEqual([
      { from: "work", to: "work: files", count: 2, errors: 1, p95Ms: 5 },
      { from: "work", to: "work: mail", count: 7, errors: 0, p95Ms: 9 },
      { from: "demo", to: "demo", count: 1, errors: 0 },
    ]);
  });

  it("tells what clients asked for from what servers got", () => {
    const list = { principal: "ann", route: "work", count: 2, errors: 0, refused: 1 };
    const byGateway = { ...list, upstream: "mail", refused: 0, byGateway: true } as const;
    const call = { ...list, upstream: "files", count: 3 };
    const own = { ...list, route: "demo" };
    const refused = { ...own, principal: "bob", count: 1 };
    const edgesOfAll = [list, byGateway, call, own, refused];
    expect(edgesOfCallers(edgesOfAll)).toEqual([list, call, own, refused]);
    expect(edgesToServers(edgesOfAll).map(({ count, ...edge }) => [serverOf(edge), count])).toEqual([
      ["work: mail", 2],
      ["work: files", 2],
      ["demo", 1],
    ]);
  });

  it("keeps labels apart, in their order", () => {
    const heights = fc.array(fc.integer({ min: 0, max: 200 }), { maxLength: 20 });
    fc.assert(
      fc.property(heights, (given) => {
        const moved = spread(given, 14);
        const sorted = moved.toSorted((one, other) => one - other);
        for (const [index, at] of sorted.entries())
          if (index > 0) expect(at - (sorted[index - 1] ?? 0)).toBeGreaterThanOrEqual(14);
        for (const [one, height] of given.entries()) {
          expect(moved[one]).toBeGreaterThanOrEqual(height);
          for (const [other, below] of given.entries())
            if (height < below) expect(moved[one]).toBeLessThan(moved[other] ?? 0);
        }
      }),
    );
  });
});
