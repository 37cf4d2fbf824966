import { describe, expect, it } from "vitest";

import { conditionOf } from "./filter-query.ts";
import { owner } from "./sign-in/sign-in.ts";

const viewer = { name: "viewer", rights: ["view"] } as const;

describe("a filter of the admin API", () => {
  it.each(["text:secret", "!answer:secret", "tool:x (status:err or request:secret)", "secret"])(
    "does not search messages for callers who may not read them: %s",
    (filter) => {
      expect(conditionOf(filter, 0, owner)).toBeDefined();
      expect(() => conditionOf(filter, 0, viewer)).toThrow("needs the right `bodies`");
    },
  );

  it("searches everything else for them", () => {
    expect(conditionOf("tool:x status:err since:1h", 0, viewer)).toBeDefined();
  });
});
