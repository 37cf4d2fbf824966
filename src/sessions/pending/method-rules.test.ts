import { describe, expect, it } from "vitest";
import { requestOf } from "../../../test/support/messages.ts";
import { createMethodRules, defaultTtl, methodLabels } from "./method-rules.ts";

const minute = 60_000;

describe("the plan of a method", () => {
  it.each([
    ["initialize", 30_000],
    ["tools/list", 30_000],
    ["server/discover", 30_000],
    ["tools/call", 5 * minute],
    ["resources/read", 5 * minute],
    ["sampling/createMessage", 30 * minute],
    ["elicitation/create", 30 * minute],
    ["vendor/unknown", 5 * minute],
  ])("[SC-050] gives %s its inactivity TTL of %i ms and the hard limit of an hour", (method, inactivityMs) => {
    expect(createMethodRules(defaultTtl)(method)).toMatchObject({ inactivityMs, hardMs: 60 * minute });
  });

  it("[SC-057] gives listening no TTL, even where an exception would fit", () => {
    const planOf = createMethodRules({
      ...defaultTtl,
      methods: [{ method: "*", inactivityMs: 1, hardMs: 1 }],
    });
    const plan = planOf("subscriptions/listen");
    expect(plan).toMatchObject({ isStream: true, inactivityMs: Infinity, hardMs: Infinity });
  });

  it("[SC-050] takes the first exception whose glob fits, for known and unknown methods", () => {
    const planOf = createMethodRules({
      ...defaultTtl,
      methods: [
        { method: "tools/call", inactivityMs: 1 },
        { method: "tools/*", hardMs: 2 },
        { method: "*/slow*st", inactivityMs: 3, hardMs: 4 },
      ],
    });
    expect(planOf("tools/call")).toMatchObject({ inactivityMs: 1, hardMs: defaultTtl.hardMs });
    expect(planOf("tools/list")).toMatchObject({ inactivityMs: defaultTtl.quickMs, hardMs: 2 });
    expect(planOf("vendor/slowest")).toMatchObject({ inactivityMs: 3, hardMs: 4 });
    expect(planOf("vendor/slowst")).toMatchObject({ inactivityMs: 3 });
    expect(planOf("vendor/slow")).toMatchObject({ inactivityMs: defaultTtl.toolMs });
    expect(planOf("slowest")).toMatchObject({ inactivityMs: defaultTtl.toolMs });
  });

  it.each([
    ["a*a", "a", false],
    ["a*a", "aa", true],
    ["a*b*c", "abbc", true],
    ["a*b*bc", "abc", false],
    ["*", "", true],
    ["**", "x", true],
    ["a.c", "abc", false],
  ])("reads the glob %s against %s as %s", (method, name, fits) => {
    const planOf = createMethodRules({ ...defaultTtl, methods: [{ method, inactivityMs: 7 }] });
    expect(planOf(name).inactivityMs === 7).toBe(fits);
  });

  it("does not take long over a name made to be slow to match", () => {
    const planOf = createMethodRules({ ...defaultTtl, methods: [{ method: "*a*a*a*a*b", inactivityMs: 7 }] });
    expect(planOf("a".repeat(1_000_000)).inactivityMs).toBe(defaultTtl.toolMs);
  });

  it("[SC-060] counts known requests under their names and everything else as other", () => {
    const planOf = createMethodRules(defaultTtl);
    const labelOf = (method: string) => methodLabels[planOf(method).row];
    expect(labelOf("tools/call")).toBe("tools/call");
    expect([labelOf("vendor/x"), labelOf("notifications/progress"), labelOf("other")]).toEqual([
      "other",
      "other",
      "other",
    ]);
    expect(planOf("vendor/x").label).toBe("other");
  });
});

describe("limits of single tools", () => {
  const planOf = createMethodRules({
    ...defaultTtl,
    methods: [{ method: "tools/*", inactivityMs: 5, hardMs: 6 }],
    tools: { slow: 1000, constructor: 2000 },
  });

  it("[SC-050] come before what is said of the method, and leave its hard limit", () => {
    expect(planOf("tools/call", requestOf("tools/call", { name: "slow" }))).toMatchObject({
      label: "tools/call",
      inactivityMs: 1000,
      hardMs: 6,
    });
  });

  it.each(["other", "", "toString", 7, undefined])("do not concern a call of %j", (name) => {
    expect(planOf("tools/call", requestOf("tools/call", { name }))).toMatchObject({ inactivityMs: 5 });
  });

  it("do not concern prompts of the same name", () => {
    expect(planOf("prompts/get", requestOf("prompts/get", { name: "slow" })).inactivityMs).toBe(defaultTtl.toolMs);
  });

  it("hold for a tool that is called as something every object has", () => {
    expect(planOf("tools/call", requestOf("tools/call", { name: "constructor" })).inactivityMs).toBe(2000);
  });
});
