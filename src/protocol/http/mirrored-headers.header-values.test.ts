import fc from "fast-check";
import { describe, expect, it } from "vitest";

import { anyText } from "../../../test/support/arbitraries.ts";

import { decodeHeaderValue, encodeHeaderValue, trimHeaderValue } from "./mirrored-headers.ts";

describe("writing a header value", () => {
  it.each(["weigh", "a b", "a\tb", "~!x", "=?base64?x", "x?=", "=?BASE64?eA==?="])(
    "leaves %j as it is, because HTTP can carry it",
    (text) => {
      expect(encodeHeaderValue(text)).toBe(text);
    },
  );

  it.each([
    ["grüße", "=?base64?Z3LDvMOfZQ==?="],
    [" a", "=?base64?IGE=?="],
    ["a ", "=?base64?YSA=?="],
    ["a\r\nX-Evil: 1", "=?base64?YQ0KWC1FdmlsOiAx?="],
    ["", "=?base64??="],
    ["=?base64?eA==?=", "=?base64?PT9iYXNlNjQ/ZUE9PT89?="],
    ["\u007f", "=?base64?fw==?="],
  ])("encodes %j between the sentinels", (text, value) => {
    expect(encodeHeaderValue(text)).toBe(value);
  });

  it("has no encoding for a lone surrogate", () => {
    expect(encodeHeaderValue("a\ud800")).toBeUndefined();
  });
});

describe("reading a header value", () => {
  it("reads back whatever was written", () => {
    fc.assert(
      fc.property(anyText, (text) => {
        const value = encodeHeaderValue(text);
        return value !== undefined && decodeHeaderValue(value) === text;
      }),
    );
  });

  it("writes only what HTTP carries unchanged", () => {
    fc.assert(
      fc.property(anyText, (text) => {
        const value = encodeHeaderValue(text) ?? "";
        return /^[\t\x20-\x7e]+$/.test(value) && trimHeaderValue(value) === value;
      }),
    );
  });

  it.each(["=?base64?x", "eA==?=", "=?BASE64?eA==?=", "=?base64?=", "=?Base64?eA==?=", ""])(
    "takes %j literally, because a sentinel is missing or spelt otherwise",
    (value) => {
      expect(decodeHeaderValue(value)).toBe(value);
    },
  );

  it.each([
    ["no padding", "=?base64?eA?="],
    ["too much padding", "=?base64?eA===?="],
    ["the URL alphabet", "=?base64?_-8=?="],
    ["a blank inside", "=?base64?eA ==?="],
    ["stray bits", "=?base64?eB==?="],
    ["bytes that are no UTF-8", "=?base64?/w==?="],
  ])("refuses %s", (_what, value) => {
    expect(decodeHeaderValue(value)).toBeUndefined();
  });

  it("keeps a byte order mark, which is part of the text", () => {
    const text = "\ufeffx";
    expect(decodeHeaderValue(encodeHeaderValue(text) ?? "")).toBe(text);
  });

  it("trims blanks and tabs around a value and nothing else", () => {
    expect(trimHeaderValue(" \t foo bar\t ")).toBe("foo bar");
    expect(trimHeaderValue("\u00a0x")).toBe("\u00a0x");
    expect(trimHeaderValue("  ")).toBe("");
  });
});
