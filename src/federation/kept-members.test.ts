import { describe, expect, it } from "vitest";

import { formatKeptMembers, keptKey, type KeptMember, parseKeptMembers } from "./kept-members.ts";

const member = (session: string): KeptMember => ({
  session,
  revision: "2025-11-25",
  capabilities: { tools: {} },
});

describe("the sessions of members", () => {
  it("come back as they were", () => {
    const members = new Map([
      ["one", member("s-1")],
      ["two", { ...member("s-2"), revision: undefined }],
    ]);
    expect(parseKeptMembers(formatKeptMembers(members) ?? "")).toEqual(members);
  });

  it("are left out where they do not fit into a header, without the others", () => {
    const text = formatKeptMembers(
      new Map(["a", "long", "b"].map((name) => [name, member(name.repeat(name.length ** 5))])),
    );
    expect([...parseKeptMembers(text ?? "").keys()]).toEqual(["a", "b"]);
    expect(formatKeptMembers(new Map())).toBeUndefined();
  });

  it("take little more than their ids where servers agree on the same", () => {
    const session = "6f0e1c1c-58a1-4d5e-9c0c-3d1d8d7f2a10";
    const members = new Map(
      Array.from({ length: 20 }, (_, index) => [keptKey(`m${index}`, "server"), member(session)] as const),
    );
    const text = formatKeptMembers(members) ?? "";
    expect(parseKeptMembers(text)).toEqual(members);
    expect(text.length).toBeLessThan(20 * (session.length + 20));
  });

  it("are of one server under one name", () => {
    const keys = [keptKey("a", "x"), keptKey("a", "y"), keptKey("b", "x"), keptKey("ab", "x"), keptKey("a", "bx")];
    expect(new Set(keys).size).toBe(keys.length);
  });
});
