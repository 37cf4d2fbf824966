import fc from "fast-check";
import { describe, expect, it } from "vitest";

import { compactJson, prettyJson } from "./json-text.ts";

describe("JSON for people", () => {
  it("is laid out as JSON usually is, and back", () => {
    fc.assert(
      fc.property(fc.jsonValue(), (value) => {
        const text = JSON.stringify(value);
        expect(prettyJson(text)).toBe(JSON.stringify(value, undefined, 2));
        expect(compactJson(prettyJson(text))).toBe(text);
      }),
    );
  });

  it("keeps every digit, every escape and members that come twice", () => {
    const text = String.raw`{"a":12345678901234567890,"a":1.0,"b":"\u0041\/","c":1e400}`;
    expect(compactJson(prettyJson(text))).toBe(text);
    expect(prettyJson(text)).toContain("12345678901234567890");
  });

  it("leaves alone what is not JSON", () => {
    for (const text of ["", "{", "not JSON", '{"a":1} trailing', "{'a':1}"]) {
      expect(prettyJson(text)).toBe(text);
      expect(compactJson(text)).toBe(text);
    }
  });
});
