import { describe, expect, it } from "vitest";

import { policyConfig } from "./config.ts";

describe("the URIs in lists of resources", () => {
  it.each([
    ["file:/etc/*", "file:///etc/*"],
    ["file://localhost/etc/*", "file:///etc/*"],
    ["https://Host/x", "https://host/x"],
    ["https://host:443/*", "https://host/*"],
    ["note://Caf\u00e9/x", "note://Caf%C3%A9/x"],
  ])("are refused in a spelling that never matches: %s", (pattern, spelling) => {
    for (const list of ["allow", "deny"]) {
      const { success, error } = policyConfig.safeParse({ resources: { [list]: [pattern] } });
      expect([success, error?.issues[0]?.path]).toEqual([false, ["resources", list, 0]]);
      expect(error?.issues[0]?.message).toContain(`write "${spelling}"`);
    }
  });

  it.each(["file:///etc/*", "https://*.example.com/*", "vault://secret", "*secret*", "file:///{path}", "custom:thing"])(
    "may be canonical, with wildcards and expressions of templates: %s",
    (pattern) => {
      expect(policyConfig.safeParse({ resources: { deny: [pattern] } }).success).toBe(true);
    },
  );
});

describe("the names in lists of tools and prompts", () => {
  it.each(["del|rm", "{del,rm}", "de?", "[dr]el", "^del", "del$", String.raw`del\w`, " del", "del "])(
    "are refused as patterns of another kind, which would match nothing: %j",
    (pattern) => {
      for (const kind of ["tools", "prompts"]) {
        const { success, error } = policyConfig.safeParse({ [kind]: { deny: [pattern] } });
        expect([success, error?.issues[0]?.path]).toEqual([false, [kind, "deny", 0]]);
        expect(error?.issues[0]?.message).toContain("only `*` is special");
      }
    },
  );

  it.each(["del*", "*", "ns.del", "ns/del-it_2", "read (all)", "löschen", "a b"])("may be names: %j", (pattern) => {
    expect(policyConfig.safeParse({ tools: { deny: [pattern] }, prompts: { allow: [pattern] } }).success).toBe(true);
  });
});

describe("the pointers of rules", () => {
  it.each([
    ["rules", "/people/**/salary", "one level"],
    ["rules", "/sal*", "one level"],
    ["rules", "/people[*]/salary", "own step"],
    ["rules", "/people/0]/x[0]", "own step"],
    ["rules", "/params/arguments/ssn", "begins at the arguments; write `/ssn`"],
    ["results", "/result/structuredContent/pay", "begins at the result; write `/structuredContent/pay`"],
    ["results", "/structuredcontent/pay", "did you mean `structuredContent`?"],
    ["results", "/structuredContent/**", "one level"],
  ])("are refused in %s where they would match nothing: %s", (list, pointer, problem) => {
    for (const effect of [{ redact: [pointer] }, { remove: [pointer] }]) {
      const { success, error } = policyConfig.safeParse({ [list]: [{ apply: "true", ...effect }] });
      expect(success).toBe(false);
      expect(error?.issues[0]?.message).toContain(problem);
    }
  });

  it.each([
    ["rules", "/params/x"],
    ["rules", "/arguments/ssn"],
    ["rules", "/structuredcontent"],
    ["rules", "/a[b]c/*/0"],
    ["results", "/result"],
    ["results", "/own/*/x"],
  ])("may be in %s what a member is called: %s", (list, pointer) => {
    expect(policyConfig.safeParse({ [list]: [{ apply: "true", redact: [pointer] }] }).success).toBe(true);
  });
});
