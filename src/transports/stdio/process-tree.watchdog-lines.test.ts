import { describe, expect, it } from "vitest";

import { applyWatchdogLine, formatForgetLine, formatWatchLine, type ProcessTree } from "./process-tree.ts";

describe("what the watchdog is told", () => {
  it("makes it know a family, and forget it", () => {
    const families = new Map<number, ProcessTree>();
    const known: ProcessTree = { leader: 100, marker: "7.a b\n", startedAt: 12 };
    const plain: ProcessTree = { leader: 101, marker: "7.c", startedAt: undefined };
    for (const family of [known, plain]) {
      const line = formatWatchLine(family);
      expect(line.indexOf("\n")).toBe(line.length - 1);
      applyWatchdogLine(families, line.trimEnd());
    }
    expect([...families.values()]).toEqual([known, plain]);
    applyWatchdogLine(families, formatForgetLine(known).trimEnd());
    expect([...families.keys()]).toEqual([101]);
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
    const families = new Map<number, ProcessTree>();
    applyWatchdogLine(families, line);
    expect(families.size).toBe(0);
  });
});
