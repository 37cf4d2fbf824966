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

  class Weight {
    kilos = 3;
  }

  it.each([
    ["Error", new Error("lost")],
    ["TypeError", Object.assign(new TypeError("lost"), { code: "E" })],
    ["Map", new Map([[1, 2]])],
    ["Set", new Set([1])],
    ["Promise", Promise.resolve(1)],
    ["Response", new Response("x")],
    ["ReadableStream", new ReadableStream()],
    ["Headers", new Headers({ a: "b" })],
  ])("[IP-058] says so when the content of %s would be lost, wherever it stands", (name, value) => {
    for (const result of [value, { value }, [value]]) {
      const text = `The tool returned an invalid result: expected JSON data or a CallToolResult, received an instance of ${name}`;
      expect(toCallToolResult(result)).toEqual({ content: [{ type: "text", text }], isError: true });
    }
  });

  it.each([
    ["a date", new Date(0), "1970-01-01T00:00:00.000Z"],
    ["bytes", Buffer.from([1]), { type: "Buffer", data: [1] }],
    ["a URL", new URL("https://a.example/"), "https://a.example/"],
    ["an object of a class", new Weight(), { kilos: 3 }],
    ["an object that says what it is", { toJSON: () => "x" }, "x"],
    ["an empty object", {}, {}],
    ["an object without a prototype", Object.assign(Object.create(null), { a: 1 }), { a: 1 }],
  ])("[IP-058] gives %s as the JSON that it becomes", (_what, value, json) => {
    expect(toCallToolResult(value)).toMatchObject({
      content: [{ type: "text", text: JSON.stringify(json) }],
      structuredContent: json,
    });
  });

  it.each([
    ["undefined", { toJSON: () => undefined }],
    [
      "a value that JSON cannot hold",
      {
        get a(): never {
          throw new Error("secret");
        },
      },
    ],
  ])("[IP-058] says so when a result becomes %s", (what, value) => {
    expect(toCallToolResult(value)).toMatchObject({
      content: [{ text: expect.stringContaining(`received ${what}`) }],
      isError: true,
    });
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
