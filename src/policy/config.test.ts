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
