import { describe, expect, it } from "vitest";

import { applyWatchdogLine, formatForgetLine, formatWatchLine, type ProcessTree } from "./process-tree.ts";

describe("what the watchdog is told", () => {
  it("makes it know a tree, and forget it", () => {
    const trees = new Map<number, ProcessTree>();
    const known: ProcessTree = { leader: 100, marker: "7.a b\n", startedAt: 12 };
    const plain: ProcessTree = { leader: 101, marker: "7.c", startedAt: undefined };
    for (const tree of [known, plain]) {
      const line = formatWatchLine(tree);
      expect(line.indexOf("\n")).toBe(line.length - 1);
      applyWatchdogLine(trees, line.trimEnd());
    }
    expect([...trees.values()]).toEqual([known, plain]);
    applyWatchdogLine(trees, formatForgetLine(known).trimEnd());
    expect([...trees.keys()]).toEqual([101]);
  });

  it.each([
    "",
    "+",
    "+100",
    '+[0,"m",1]',
    '+[1,"m",1]',
    '+[-5,"m",1]',
    '+[2.5,"m",1]',
    '+["100","m",1]',
    '+[100,"",1]',
    "+[100]",
    "+[100",
    "*100",
  ])("changes nothing when it is %j, for a wrong number would be fatal to others", (line) => {
    const trees = new Map<number, ProcessTree>();
    applyWatchdogLine(trees, line);
    expect(trees.size).toBe(0);
  });
});
