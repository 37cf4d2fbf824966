import fc from "fast-check";
import { describe, expect, it } from "vitest";

import { splice } from "./edit.ts";
import { applyEdits, planEdits, type PointerEdit } from "./edit.ts";

function after(text: string, edits: readonly PointerEdit[], values: readonly string[] = []): string {
  const bytes = Buffer.from(text);
  const span = { start: 0, end: bytes.length };
  const outcome = applyEdits(
    bytes,
    span,
    planEdits(edits),
    values.map((value) => Buffer.from(value)),
  );
  return outcome.ok ? splice(bytes, span, outcome.replacements).toString() : outcome.problem;
}

describe("edits of JSON", () => {
  it("leave every other byte as it was", () => {
    const text = '{ "a" : 1.0, "b":[ 1e2 , {"c":"x"} ],\n"d":"\\u0041" }';
    expect(after(text, [{ pointer: "/b/1/c", action: "redact" }])).toBe(text.replace('"x"', '"[redacted]"'));
  });

  it.each<[string, string, PointerEdit[], string[], string]>([
    [
      "escaped names",
      '{"a/b":{"m~n":1}}',
      [{ pointer: "/a~1b/m~0n", action: "redact" }],
      [],
      '{"a/b":{"m~n":"[redacted]"}}',
    ],
    [
      "any member",
      '{"a":1,"b":{"c":2}}',
      [{ pointer: "/*", action: "redact" }],
      [],
      '{"a":"[redacted]","b":"[redacted]"}',
    ],
    [
      "a named one before any",
      '{"a":1,"b":2}',
      [
        { pointer: "/*", action: "remove" },
        { pointer: "/a", action: "redact" },
      ],
      [],
      '{"a":"[redacted]"}',
    ],
    ["removal of all", '{"a":1}', [{ pointer: "/a", action: "remove" }], [], "{}"],
    [
      "removal from arrays",
      "[1,[2,3],4]",
      [
        { pointer: "/0", action: "remove" },
        { pointer: "/1/1", action: "remove" },
      ],
      [],
      "[[2],4]",
    ],
    [
      "removal behind changes",
      '[{"x":1},2]',
      [
        { pointer: "/0/x", action: "redact" },
        { pointer: "/1", action: "remove" },
      ],
      [],
      '[{"x":"[redacted]"}]',
    ],
    [
      "nested additions",
      '{"a":{}}',
      [
        { pointer: "/a/b/c", action: { set: 0 } },
        { pointer: "/d", action: { set: 1 } },
      ],
      ["1", "2"],
      '{"a":{"b":{"c":1}},"d":2}',
    ],
    ["elements", "[1,2]", [{ pointer: "/1", action: { set: 0 } }], ["9"], "[1,9]"],
    [
      "elements that are not there",
      "[1]",
      [{ pointer: "/1", action: { set: 0 } }],
      ["9"],
      "the array has no element 1",
    ],
    ["members of texts", '{"a":"x"}', [{ pointer: "/a/b", action: { set: 0 } }], ["9"], 'a string has no member "b"'],
  ])("know %s", (_, text, edits, values, expected) => {
    expect(after(text, edits, values)).toBe(expected);
  });

  it("leave nothing of what they redact, and valid JSON, whatever the value", () => {
    fc.assert(
      fc.property(fc.jsonValue({ maxDepth: 4 }), (inner) => {
        const text = JSON.stringify({ list: [{ secret: inner, kept: inner }], kept: inner });
        const expected = { list: [{ secret: "[redacted]", kept: inner }], kept: inner };
        expect(after(text, [{ pointer: "/list/*/secret", action: "redact" }])).toBe(JSON.stringify(expected));
      }),
    );
  });
});
