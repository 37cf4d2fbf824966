import { describe, expect, it } from "vitest";

import { linksOf, serverOf } from "./links.ts";

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
});
