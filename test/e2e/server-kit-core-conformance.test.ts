import { describe, expect, it } from "vitest";

import { expectedFailuresFor } from "../conformance/expected-failures.ts";
import { lanes } from "../conformance/lanes.ts";
import { runSuite } from "../conformance/suite.ts";
import { startTarget } from "../conformance/target.ts";
import { failuresIn, judge } from "../conformance/verdict.ts";

const kitLanes = lanes.filter(({ name }) => name.startsWith("kit-"));

describe("the official conformance suite against the kit", () => {
  it("[KO-129] has a lane for each revision", () => {
    expect(kitLanes.map(({ name }) => name)).toEqual(["kit-2025-06-18", "kit-2025-11-25", "kit-2026-07-28"]);
    // What is not scored may fail; nothing else.
    const expected = kitLanes.flatMap((lane) => [...expectedFailuresFor("direct", lane).keys()]);
    expect(expected.every((scenario) => scenario.startsWith("tasks-"))).toBe(true);
  });

  it.each(kitLanes)(
    "[KO-129] passes $name",
    async (lane) => {
      await using target = await startTarget("direct", lane);
      const { outcome, accepted } = await runSuite(target.url, lane.selection);
      expect(judge(failuresIn(outcome), expectedFailuresFor("direct", lane)).unexpected).toEqual([]);
      expect(outcome.size).toBeGreaterThan(20);
      if (lane.scored) expect(accepted).toBe(true);
    },
    120_000,
  );
});
