import fc from "fast-check";
import { describe, expect, it } from "vitest";

import { AdvertisedNames, type NamedKind } from "./advertised-names.ts";
import type { MemberOptions } from "./member-options.ts";

function member(name: string, more: Partial<MemberOptions> = {}): MemberOptions {
  return { name, prefix: name, title: name, allowedTools: undefined, uris: "keep", required: false, ...more };
}

function namesOf(...members: readonly MemberOptions[]): AdvertisedNames {
  return new AdvertisedNames({ members, separator: "__", nameLength: 64 });
}

const kinds = ["tool", "prompt"] as const satisfies readonly NamedKind[];

describe("advertised names", () => {
  const [gh, notes, bare, other] = [
    member("github", { prefix: "gh" }),
    member("notes"),
    member("bare", { prefix: "" }),
    member("other", { prefix: "" }),
  ];

  it("begins with the prefix, also where there is one server only", () => {
    expect(namesOf(gh).advertise(gh, "tool", "create_issue")).toBe("gh__create_issue");
    expect(namesOf(bare).advertise(bare, "tool", "create_issue")).toBe("create_issue");
  });

  it("leads every offered name back to its server and its own name, whatever the names are", () => {
    const members = [gh, notes, bare];
    const text = { minLength: 1, maxLength: 150 };
    const names = fc.oneof(fc.string(text), fc.string({ ...text, unit: "binary" }));
    fc.assert(
      fc.property(fc.constantFrom(...members), fc.constantFrom(...kinds), names, (from, kind, name) => {
        const table = namesOf(...members);
        const advertised = table.advertise(from, kind, name);
        if (advertised === undefined) return;
        expect(advertised.length).toBeLessThanOrEqual(64);
        expect(advertised.isWellFormed()).toBe(true);
        const json = name === advertised ? undefined : Buffer.from(JSON.stringify(name));
        const expected = { type: "target", target: { member: from.name, name, json } };
        // Also where it is remembered from the first time.
        for (const _time of [1, 2]) expect(table.resolve(kind, advertised)).toEqual(expected);
      }),
    );
  });

  it("does not depend on other servers' lists, on earlier names, or on the order of the servers", () => {
    const names = fc.array(fc.tuple(fc.constantFrom(gh, notes), fc.string({ minLength: 1, maxLength: 90 })));
    fc.assert(
      fc.property(names, (list) => {
        const [table, another] = [namesOf(gh, notes, bare), namesOf(bare, notes, gh)];
        for (const [from, name] of list.toReversed()) another.advertise(from, "tool", name);
        for (const [from, name] of list)
          expect(another.advertise(from, "tool", name)).toBe(table.advertise(from, "tool", name));
      }),
    );
  });

  it("never gives two names the same advertised one, even where one is made to look cut", () => {
    const table = namesOf(gh);
    const long = "x".repeat(100);
    const cut = table.advertise(gh, "tool", long) ?? "";
    expect(cut).toMatch(/^gh__x+_[\da-z]{8}$/u);
    expect(cut).toHaveLength(64);
    const imitation = cut.slice("gh__".length);
    expect(table.advertise(gh, "tool", imitation)).not.toBe(cut);
    expect(table.resolve("tool", cut)).toMatchObject({ type: "target", target: { member: "github", name: long } });
  });

  it("asks for the list of a server before it knows what a cut name stands for", () => {
    const cut = namesOf(gh).advertise(gh, "tool", "x".repeat(100)) ?? "";
    expect(namesOf(gh).resolve("tool", cut)).toEqual({ type: "unlisted", members: ["github"] });
  });

  it("does not offer a bare name that looks like one of another server", () => {
    expect(namesOf(gh, bare).advertise(bare, "tool", "gh__create_issue")).toBeUndefined();
    expect(namesOf(gh, bare).resolve("tool", "gh__create_issue")).toMatchObject({ target: { member: "github" } });
  });

  it("needs the lists of all servers with bare names, and gives a name of two of them to neither", () => {
    const table = namesOf(bare, other);
    expect(table.resolve("tool", "read")).toEqual({ type: "unlisted", members: ["bare", "other"] });
    table.learn(bare, "tool", ["read", "write"]);
    expect(table.resolve("tool", "write")).toEqual({ type: "unlisted", members: ["other"] });
    table.learn(other, "tool", ["read"]);
    expect(table.resolve("tool", "write")).toMatchObject({ target: { member: "bare" } });
    expect(table.resolve("tool", "read")).toEqual({ type: "unknown" });
    expect(table.isClash("tool", "read")).toBe(true);
    table.learn(other, "tool", []);
    expect(table.resolve("tool", "read")).toMatchObject({ target: { member: "bare" } });
  });

  it("offers only the tools that are allowed, and all prompts", () => {
    const some = member("github", { allowedTools: ["*issue*", "search"] });
    const table = namesOf(some);
    expect(table.advertise(some, "tool", "create_issue")).toBe("github__create_issue");
    expect(table.advertise(some, "tool", "delete_repo")).toBeUndefined();
    expect(table.resolve("tool", "github__delete_repo")).toEqual({ type: "unknown" });
    expect(table.advertise(some, "prompt", "delete_repo")).toBe("github__delete_repo");
  });

  it("does not offer an empty name, which would look like a prefix alone", () => {
    for (const from of [gh, bare])
      for (const kind of kinds) expect(namesOf(gh, bare).advertise(from, kind, "")).toBeUndefined();
  });

  it("knows nothing of names without a server", () => {
    for (const name of ["x", "__x", "nobody__x", "gh_x", "GH__x", "", "gh__"])
      expect(namesOf(gh, notes).resolve("tool", name)).toEqual({ type: "unknown" });
  });

  it("gives a tool the name of its override alone, and that name to no other tool", () => {
    const override = { hide: false, arguments: {} };
    const overrides = new Map([
      ["gh__a", { ...override, name: "notes__b" }],
      ["gh__c", { ...override, hide: true }],
    ]);
    const table = new AdvertisedNames({ members: [gh, notes], separator: "__", nameLength: 64, overrides });
    expect(table.advertise(gh, "tool", "a")).toBe("notes__b");
    expect(table.advertise(notes, "tool", "b")).toBeUndefined();
    expect(table.resolve("tool", "notes__b")).toMatchObject({ target: { member: "github", name: "a" } });
    // What prompts have these names for says nothing about tools.
    for (const kind of ["prompt", "tool"] as const)
      for (const gone of ["gh__a", "gh__c"])
        expect(table.resolve(kind, gone)).toMatchObject({ type: kind === "tool" ? "unknown" : "target" });
    // Prompts have names of their own.
    expect(table.advertise(notes, "prompt", "b")).toBe("notes__b");
  });
});
