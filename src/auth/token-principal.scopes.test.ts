import { describe, expect, it } from "vitest";

import { expandScopes, readScopes } from "./token-principal.ts";

describe("scopes", () => {
  it("bring along all that they imply, however far, also in circles", () => {
    const implied = { admin: ["write"], write: ["read"], read: ["write"] };
    expect(expandScopes(["admin", "other"], implied)).toEqual(new Set(["admin", "write", "read", "other"]));
    expect(expandScopes(["constructor"], implied)).toEqual(new Set(["constructor"]));
  });

  it.each([
    ["a b  c", ["a", "b", "c"]],
    ["", []],
    [
      ["a", 1, "b"],
      ["a", "b"],
    ],
    [undefined, []],
    [{ a: 1 }, []],
  ])("are read from %j", (claim, scopes) => {
    expect(readScopes(claim)).toEqual(scopes);
  });
});
