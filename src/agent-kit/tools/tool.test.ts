import fc from "fast-check";
import { describe, expect, it } from "vitest";

import { toCallToolResult } from "./tool.ts";

describe("toCallToolResult", () => {
  it("[IP-004] makes results of plain data and leaves whole results alone", () => {
    expect(toCallToolResult({ sum: 42 })).toEqual({
      content: [{ type: "text", text: '{"sum":42}' }],
      structuredContent: { sum: 42 },
    });
    expect(toCallToolResult("hello")).toEqual({ content: [{ type: "text", text: "hello" }] });
    expect(toCallToolResult([1, 2])).toEqual({
      content: [{ type: "text", text: "[1,2]" }],
      structuredContent: [1, 2],
    });
    expect(toCallToolResult(null)).toEqual({
      content: [{ type: "text", text: "null" }],
      structuredContent: null,
    });
    expect(toCallToolResult(undefined)).toEqual({ content: [] });
    const whole = {
      content: [{ type: "image", data: "AA==", mimeType: "image/png" }],
      isError: true,
      later: 1,
    };
    expect(toCallToolResult(whole)).toBe(whole);
  });

  it("[IP-004] keeps data that only looks a little like a result", () => {
    expect(toCallToolResult({ content: "a page" }).structuredContent).toEqual({ content: "a page" });
    expect(toCallToolResult({ isError: false }).structuredContent).toEqual({ isError: false });
  });

  it("[IP-058] names the expected and the received type of values that are not JSON", () => {
    const itself: Record<string, unknown> = {};
    itself["self"] = itself;
    const cases: readonly (readonly [unknown, string])[] = [
      [() => 1, "function"],
      [Symbol("x"), "symbol"],
      [10n, "bigint"],
      [{ deep: [Number.NaN] }, "NaN"],
      [{ deep: { size: 1n } }, "bigint"],
      [itself, "refers to itself"],
    ];
    for (const [value, received] of cases) {
      const { isError, content } = toCallToolResult(value);
      expect([isError, content]).toEqual([
        true,
        [
          {
            type: "text",
            text: expect.stringMatching(new RegExp(`expected JSON.*received.*${received}`, "u")),
          },
        ],
      ]);
    }
  });

  it("[IP-058] names the member for results with invalid content", () => {
    const texts = [
      { content: ["just text"] },
      { content: [{ type: "text", text: 42 }] },
      { content: "text", isError: true },
      { content: 7, structuredContent: {} },
    ].map((value) => toCallToolResult(value).content[0]);
    expect(texts).toEqual([
      { type: "text", text: expect.stringMatching(/expected a CallToolResult, but "content\.0" is string/u) },
      { type: "text", text: expect.stringMatching(/"content\.0/u) },
      { type: "text", text: expect.stringMatching(/"content" is string/u) },
      { type: "text", text: expect.stringMatching(/"content" is number/u) },
    ]);
  });

  it("[IP-004] gives every JSON value back as text", () => {
    fc.assert(
      fc.property(fc.jsonValue(), (value) => {
        const { content, isError } = toCallToolResult({ value });
        const [block] = content;
        const text = block?.type === "text" ? block.text : "";
        expect([isError, JSON.parse(text)]).toEqual([undefined, JSON.parse(JSON.stringify({ value }))]);
      }),
    );
  });
});
