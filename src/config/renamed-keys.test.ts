import { describe, expect, it } from "vitest";

import { describeRename, newPathOf, renamedKeys } from "./renamed-keys.ts";
import { schemasAt } from "./json-schema.ts";

const table = {
  "listen.cors": "cors",
  "policy.authzen.retryPause": "policy.authzen.retryBackoff",
  "policy.rules.dry": "policy.rules.shadow",
  "record.retention.*.days": "record.retention.*.maxAge",
};

describe("renamed keys", () => {
  it("finds the new path of an old key", () => {
    expect(newPathOf(["listen"], "cors", table)).toBe("cors");
    expect(newPathOf(["policy", "authzen"], "retryPause", table)).toBe("policy.authzen.retryBackoff");
  });

  it("finds it in the settings of a route, in a list and under a name of the user", () => {
    expect(newPathOf(["routes", "a", "policy", "authzen"], "retryPause", table)).toBe("policy.authzen.retryBackoff");
    expect(newPathOf(["policy", "rules", 3], "dry", table)).toBe("policy.rules.shadow");
    expect(newPathOf(["record", "retention", "files"], "days", table)).toBe("record.retention.*.maxAge");
  });

  it("suggests nothing for keys that never existed", () => {
    expect(newPathOf(["listen"], "corss", table)).toBeUndefined();
    expect(newPathOf([], "retryPause", table)).toBeUndefined();
  });

  it("says the new name, with its path where that changed", () => {
    expect(describeRename(["routes", "a", "policy", "authzen"], "retryPause", "policy.authzen.retryBackoff")).toBe(
      "`retryPause` is now called `retryBackoff`",
    );
    expect(describeRename(["listen"], "cors", "cors")).toBe("`listen.cors` is now `cors`");
  });

  it("lists only new names that the schema has, and only old names that it has not", () => {
    const exists = (path: string): boolean =>
      schemasAt(path.split(".").map((step) => (step === "*" ? "name" : step))).length > 0;
    expect(Object.values(renamedKeys).filter((path) => !exists(path))).toEqual([]);
    expect(Object.keys(renamedKeys).filter(exists)).toEqual([]);
  });
});
