import fc from "fast-check";
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
      ["\xFF\0key", member("s-1")],
      ["\n\x80two", { ...member("s-2"), revision: undefined, capabilities: { extensions: { "é\n😀": {} } } }],
    ]);
    expect(parseKeptMembers(formatKeptMembers(members) ?? "")).toEqual(members);
  });

  it.each([
    "6f0e1c1c-58a1-4d5e-9c0c-3d1d8d7f2a10",
    "6F0E1C1C-58A1-4D5E-9C0C-3D1D8D7F2A10",
    "6f0e1c1c58a14d5e9c0c3d1d8d7f2a10",
    "00000000-0000-0000-0000-000000000000",
    "~~.0:~!",
    "a.1~b",
  ])("come back with an id of any form: %s", (session) => {
    const members = new Map([
      ["first", member(session)],
      ["other", member("x".repeat(300))],
    ]);
    expect(parseKeptMembers(formatKeptMembers(members) ?? "")).toEqual(members);
  });

  it("come back with any visible ids", () => {
    const id = fc.oneof(
      fc.uuid(),
      fc.string({ unit: fc.integer({ min: 0x21, max: 0x7e }).map((code) => String.fromCodePoint(code)), minLength: 1 }),
    );
    fc.assert(
      fc.property(fc.uniqueArray(id, { minLength: 1, maxLength: 8 }), (ids) => {
        const members = new Map(ids.map((session, index) => [keptKey(`m${index}`, "x"), member(session)]));
        expect(parseKeptMembers(formatKeptMembers(members) ?? "")).toEqual(members);
      }),
    );
  });

  it("are left out where they are not visible ASCII, without the others", () => {
    const kept = ["a b", "c\nd", "é", ""].map((session, index) => [`key-${index}`, member(session)] as const);
    const text = formatKeptMembers(new Map([...kept, ["valid", member("s")]])) ?? "";
    expect([...parseKeptMembers(text).keys()]).toEqual(["valid"]);
  });

  it("are left out where they do not fit into a header, without the others", () => {
    const text = formatKeptMembers(
      new Map(["key-a", "loong", "key-b"].map((name) => [name, member("x".repeat(name === "loong" ? 2048 : 1))])),
    );
    expect([...parseKeptMembers(text ?? "").keys()]).toEqual(["key-a", "key-b"]);
    expect(formatKeptMembers(new Map())).toBeUndefined();
  });

  it("take little more than their ids where servers agree on the same", () => {
    const session = "6f0e1c1c-58a1-4d5e-9c0c-3d1d8d7f2a10";
    const members = new Map(
      Array.from({ length: 20 }, (_, index) => [keptKey(`m${index}`, "server"), member(session)] as const),
    );
    const text = formatKeptMembers(members) ?? "";
    expect(parseKeptMembers(text)).toEqual(members);
    expect(text.length).toBeLessThan(20 * 24);
    expect(Buffer.from(text, "latin1").toString("latin1")).toBe(text);
  });

  it("are of one server under one name", () => {
    const keys = [keptKey("a", "x"), keptKey("a", "y"), keptKey("b", "x"), keptKey("ab", "x"), keptKey("a", "bx")];
    expect(new Set(keys).size).toBe(keys.length);
  });
});
