import { describe, expect, it } from "vitest";

import { callerOfClaims } from "./roles.ts";

const config = {
  issuer: "https://login.example.com",
  nameClaim: "preferred_username",
  roleClaim: "groups",
  roles: { viewer: ["staff"], operator: ["platform"], approver: ["security"], bodyReader: ["security", "legal"] },
};

describe("the rights of a person", () => {
  it.each([
    [{ groups: ["staff"] }, ["view"]],
    [{ groups: "staff" }, ["view"]],
    [{ groups: ["platform"] }, ["view", "operate"]],
    [{ groups: ["security"] }, ["view", "bodies", "approve"]],
    [{ groups: ["legal", "platform"] }, ["view", "bodies", "operate"]],
    [{ groups: ["staff", "platform", "security"] }, ["view", "bodies", "operate", "approve"]],
    [{ groups: ["others"] }, undefined],
    [{ groups: [] }, undefined],
    [{}, undefined],
    [{ groups: ["STAFF", " staff", "*", 1, null, { staff: true }] }, undefined],
    [{ Groups: ["staff"] }, undefined],
    [{ groups: { staff: true } }, undefined],
  ])("of claims %j are %j", (claims, expected) => {
    expect(callerOfClaims({ sub: "1", ...claims }, config)?.rights).toEqual(expected);
  });

  it("come from a claim inside another, and from one whose name has dots", () => {
    const claims = { sub: "1", realm_access: { roles: ["staff"] }, "https://example.com/roles": ["platform"] };
    const by = (roleClaim: string) => callerOfClaims(claims, { ...config, roleClaim })?.rights;
    expect(by("realm_access.roles")).toEqual(["view"]);
    expect(by("https://example.com/roles")).toEqual(["view", "operate"]);
    for (const missing of [
      "realm_access",
      "realm_access.roles.0",
      "realm_access.none",
      "__proto__",
      "constructor.name",
    ])
      expect(by(missing)).toBeUndefined();
  });

  it("come from an address only if the issuer has verified it", () => {
    const own = { ...config, roleClaim: "email", roles: { ...config.roles, viewer: ["ann@example.com"] } };
    const claims = { sub: "1", email: "ann@example.com" };
    expect(callerOfClaims({ ...claims, email_verified: true }, own)?.rights).toEqual(["view"]);
    for (const email_verified of [undefined, false, "true", 1])
      expect(callerOfClaims({ ...claims, email_verified }, own)).toBeUndefined();
  });

  it("are given to everyone where the configuration says `*`, and to nobody without a subject", () => {
    const own = { ...config, roles: { ...config.roles, viewer: ["*"] } };
    expect(callerOfClaims({ sub: "7" }, own)).toEqual({
      name: "7",
      subject: "https://login.example.com#7",
      rights: ["view"],
    });
    expect(callerOfClaims({ sub: "7", preferred_username: "ann" }, own)?.name).toBe("ann");
    expect(callerOfClaims({}, own)).toBeUndefined();
  });
});
