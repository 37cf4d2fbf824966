import * as fc from "fast-check";
import { describe, expect, it } from "vitest";

import { applyEdit, formatForEditor } from "./intercept.ts";

const text =
  '{ "jsonrpc":"2.0",  "id":9007199254740993,"method":"tools/call","params":{"name":"a\\u0062","arguments":{"n":1.50,"list":[1, 2]}} }';

function edited(change: (shown: string) => string): string | undefined {
  const result = applyEdit(text, change(formatForEditor(text)));
  return result.ok ? result.bytes.toString() : undefined;
}

describe("an edit of a formatted message", () => {
  it("that changes nothing keeps every byte", () => {
    expect(edited((shown) => shown)).toBe(text);
    expect(formatForEditor(text)).toContain('"id": 9007199254740993');
  });

  it.each([
    ["a value", ['"n": 1.5', '"n": 2'], ['"n":1.50', '"n":2']],
    ["a big number", ['"n": 1.5', '"n": 12345678901234567890'], ['"n":1.50', '"n":12345678901234567890']],
    ["an element", ["      2\n", "      3\n"], ["[1, 2]", "[1, 3]"]],
    ["a name", ['"name": "ab"', '"name": "c"'], [String.raw`"a\u0062"`, '"c"']],
  ] as const)("that changes %s changes only that", (_what, [from, to], [before, after]) => {
    expect(edited((shown) => shown.replace(from, to))).toBe(text.replace(before, after));
  });

  it("that is not JSON is refused", () => {
    expect(applyEdit(text, "{")).toMatchObject({ ok: false });
    expect(applyEdit(text, "[]")).toMatchObject({ ok: false });
  });

  it("gives the value that was typed, whatever it was", () => {
    const trees = fc.dictionary(fc.string(), fc.jsonValue({ maxDepth: 3 }), { maxKeys: 5 });
    fc.assert(
      fc.property(trees, trees, (before, after) => {
        const clean = (value: unknown): unknown => JSON.parse(JSON.stringify(value));
        const result = applyEdit(JSON.stringify(before), JSON.stringify(after));
        expect(result.ok && JSON.parse(result.bytes.toString())).toEqual(clean(after));
      }),
    );
  });
});
