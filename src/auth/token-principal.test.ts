import fc from "fast-check";
import { describe, expect, it } from "vitest";

import { canonicalResource, includesAudience, readAudience } from "./token-principal.ts";

describe("an audience", () => {
  it.each([
    ["HTTPS://Gate.Example/Files/mcp/", "https://gate.example/Files/mcp"],
    ["https://gate.example/", "https://gate.example"],
    ["api://gate", "api://gate"],
    ["gate", "gate"],
  ])("%s is the same as %s", (text, form) => {
    expect(canonicalResource(text)).toBe(form);
  });

  it.each([
    "https://gate.example:443/mcp",
    "https://gate.example/a/../mcp",
    "https://gate.example/./mcp",
    "https://gate.example/%6dcp",
    "https://gate.example\\mcp",
    "https://user@gate.example/mcp",
    "https://gate.example/mcp#x",
    "https:gate.example/mcp",
  ])("%s stays as it is: nothing that URL parsing would change opens another place", (text) => {
    expect(canonicalResource(text)).toBe(text);
  });

  it("keeps its form once it has it", () => {
    fc.assert(
      fc.property(fc.webUrl(), (url) => {
        expect(canonicalResource(canonicalResource(url))).toBe(canonicalResource(url));
      }),
    );
  });

  it("is meant for a place that it names, and for none without a name", () => {
    const audience = readAudience(["https://a/", 3, "b"]);
    expect(includesAudience(audience, ["x", "https://a"])).toBe(true);
    expect(includesAudience(audience, ["https://a/b"])).toBe(false);
    expect(includesAudience(audience, undefined)).toBe(false);
    expect(includesAudience(readAudience(undefined), ["undefined"])).toBe(false);
    expect(includesAudience(readAudience("b"), ["b"])).toBe(true);
  });
});
