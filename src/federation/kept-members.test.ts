import { describe, expect, it } from "vitest";

import { formatKeptMembers, type KeptMember, parseKeptMembers } from "./kept-members.ts";

const member = (session: string): KeptMember => ({
  session,
  address: "server",
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
});
