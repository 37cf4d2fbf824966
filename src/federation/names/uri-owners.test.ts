import { describe, expect, it } from "vitest";

import { anonymous } from "../../core/exchange.ts";
import type { MemberOptions } from "./member-options.ts";
import { UriOwners } from "./uri-owners.ts";

const [ann, bob] = ["ann", "bob"].map((id) => ({ ...anonymous, id })) as [typeof anonymous, typeof anonymous];
const [one, two] = ["one", "two"].map((name): MemberOptions => ({
  name,
  prefix: name,
  title: name,
  allowedTools: undefined,
  uris: "keep",
  required: false,
})) as [MemberOptions, MemberOptions];

describe("the owner of a URI", () => {
  it("is the first that lists it, then the one whose template fits best, then the one that mentioned it", () => {
    const owners = new UriOwners([one, two]);
    expect(owners.ownerOf(ann, "x:a/1")).toBeUndefined();
    owners.mention("one", ann, "x:a/1");
    expect(owners.ownerOf(ann, "x:a/1")).toBe("one");
    owners.learnTemplate("two", "x:{+rest}");
    expect(owners.ownerOf(ann, "x:a/1")).toBe("two");
    owners.learnTemplate("one", "x:a/{id}");
    expect(owners.ownerOf(ann, "x:a/1")).toBe("one");
    owners.learn("two", "x:a/1");
    expect(owners.ownerOf(ann, "x:a/1")).toBe("two");
    owners.learn("one", "x:a/1");
    expect(owners.ownerOf(ann, "x:a/1")).toBe("one");
    owners.forget("one");
    expect(owners.ownerOf(ann, "x:a/1")).toBe("two");
  });

  it("is not what a result said to another caller", () => {
    const owners = new UriOwners([one, two]);
    owners.mention("two", ann, "x:1");
    expect(owners.ownerOf(ann, "x:1")).toBe("two");
    expect(owners.ownerOf(bob, "x:1")).toBeUndefined();
    expect(owners.ownerOf(anonymous, "x:1")).toBeUndefined();
  });

  it("shows a URI or template once: as the first that lists it does", () => {
    const owners = new UriOwners([one, two]);
    owners.learn("two", "x:1");
    owners.learnTemplate("two", "x:{id}");
    for (const uri of ["x:1", "x:{id}"]) expect(owners.isShadowed(two, uri)).toBe(false);
    owners.learn("one", "x:1");
    owners.learnTemplate("one", "x:{id}");
    for (const uri of ["x:1", "x:{id}"]) {
      expect(owners.isShadowed(two, uri)).toBe(true);
      expect(owners.isShadowed(one, uri)).toBe(false);
    }
  });
});
