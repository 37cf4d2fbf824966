import { describe, expect, it } from "vitest";
import { requestOf } from "../../../test/support/messages.ts";
import { defaultTtl } from "../../../test/support/correlation.ts";
import { createMethodRules, methodLabels } from "./method-rules.ts";

const minute = 60_000;

describe("the rules of a method", () => {
  it.each([
    ["initialize", 30_000],
    ["tools/list", 30_000],
    ["server/discover", 30_000],
    ["tools/call", 5 * minute],
    ["resources/read", 5 * minute],
    ["sampling/createMessage", 30 * minute],
    ["elicitation/create", 30 * minute],
    ["vendor/unknown", 5 * minute],
  ])("[SC-050] gives %s an inactivity timeout of %i ms and the hard limit of an hour", (method, inactivityMs) => {
    expect(createMethodRules(defaultTtl)(method)).toMatchObject({ inactivityMs, hardMs: 60 * minute });
  });

  it("[SC-057] gives listening no timeout", () => {
    const rules = createMethodRules(defaultTtl)("subscriptions/listen");
    expect(rules).toMatchObject({ isStream: true, inactivityMs: Infinity, hardMs: Infinity });
  });

  it("[SC-060] counts known requests under their names and everything else as other", () => {
    const rulesFor = createMethodRules(defaultTtl);
    const labelOf = (method: string) => methodLabels[rulesFor(method).row];
    expect(labelOf("tools/call")).toBe("tools/call");
    expect([labelOf("vendor/x"), labelOf("notifications/progress"), labelOf("other")]).toEqual([
      "other",
      "other",
      "other",
    ]);
    expect(rulesFor("vendor/x").label).toBe("other");
  });
});

describe("timeouts of single tools", () => {
  const rulesFor = createMethodRules({
    ...defaultTtl,
    toolMs: 5,
    hardMs: 6,
    tools: { slow: 1000, constructor: 2000 },
  });

  it("[SC-050] override that of the method, but not its hard limit", () => {
    expect(rulesFor("tools/call", requestOf("tools/call", { name: "slow" }))).toMatchObject({
      label: "tools/call",
      inactivityMs: 1000,
      hardMs: 6,
    });
  });

  it.each(["other", "", "toString", 7, undefined])("do not apply to a call of %j", (name) => {
    expect(rulesFor("tools/call", requestOf("tools/call", { name }))).toMatchObject({ inactivityMs: 5 });
  });

  it("do not apply to prompts of the same name", () => {
    expect(rulesFor("prompts/get", requestOf("prompts/get", { name: "slow" })).inactivityMs).toBe(5);
  });

  it("apply to a tool named like a property of every object", () => {
    expect(rulesFor("tools/call", requestOf("tools/call", { name: "constructor" })).inactivityMs).toBe(2000);
  });
});
