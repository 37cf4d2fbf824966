import { describe, expect, it } from "vitest";

import { readSource, type Source, type SourceFormat } from "./source.ts";

function faultsOf(text: string, format: SourceFormat = "yaml") {
  const source = readSource(text, format);
  return source.ok ? [] : source.faults;
}

function treeOf(source: Source): unknown {
  return source.ok ? source.tree : undefined;
}

describe("a YAML file", () => {
  it("is read by the core schema of YAML 1.2", () => {
    expect(treeOf(readSource("a: yes\nb: 0o17\nc: 2026-11-15\nd: ~\ne: on\n", "yaml"))).toEqual({
      a: "yes",
      b: 15,
      c: "2026-11-15",
      d: null,
      e: "on",
    });
  });

  it("may not have a key twice", () => {
    expect(faultsOf("a: 1\nb: 2\na: 3\n")).toEqual([{ message: "duplicate key `a`; keep one", line: 3, column: 1 }]);
  });

  it("may repeat a part by alias, and errors in it have the place of the part", () => {
    const source = readSource("a: &x\n  k: 1\nb: *x\n", "yaml");
    expect(treeOf(source)).toEqual({ a: { k: 1 }, b: { k: 1 } });
    expect(source.ok && source.placeOf({ path: ["b", "k"] })).toEqual({ line: 2, column: 3 });
  });

  it("cannot grow without bound by aliases", () => {
    const levels = Array.from({ length: 9 }, (_, level) => {
      const item = level === 0 ? "x" : `*l${level - 1}`;
      return `l${level}: &l${level} [${Array.from({ length: 9 }, () => item).join(", ")}]`;
    });
    expect(faultsOf(levels.join("\n"))).toEqual([{ message: "uses too many aliases; write the values out" }]);
    expect(faultsOf("a: &a [*a]\n")).toEqual([{ message: "contains itself by alias; write the value out" }]);
  });

  it("says in our words what the parser gives up on", () => {
    expect(faultsOf(`a: ${"[".repeat(3000)}${"]".repeat(3000)}`)).toMatchObject([
      { message: "nested too deeply", line: 1 },
    ]);
    expect(faultsOf(`a: 1\n${"x".repeat(2000)}: 1\n`)).toMatchObject([
      { message: "a key of more than 1024 characters; check the quotes and the `:`", line: 2 },
    ]);
  });

  it("cannot be nested without bound", () => {
    const text = `${"[".repeat(10_000)}${"]".repeat(10_000)}`;
    expect(faultsOf(text).length).toBeGreaterThan(0);
    expect(faultsOf(text).length).toBeLessThanOrEqual(10);
  });

  it.each([
    ["\ta: 1\n", "indent with spaces"],
    ["a:\n\tb: 1\n", "indent with spaces"],
    ["a: *nowhere\n", "put a value that begins with `*` or `&` in quotes"],
    ["a: [*]\n", "put a value that begins with `*` or `&` in quotes"],
    ["a: & hunter2\n", "put a value that begins with `*` or `&` in quotes"],
    ["a: @hunter2\n", "needs quotes"],
    ["a: %hunter2\n", "needs quotes"],
    ["a: `hunter2`\n", "needs quotes"],
    ["a: !hunter2 x\n", "put it in quotes"],
    ['a: "x" in hunter2\n', "put the whole value in quotes"],
    ["a: 'it's hunter2'\n", "put the whole value in quotes"],
    ["a: |hunter2\n  y\n", "put the whole value in quotes"],
    ["- a\nb: hunter2\n", "check the indentation"],
    ["a: b: hunter2\n", "put the value in quotes"],
    ["a:\n  b: 1\n   c: hunter2\n", "check the indentation"],
    ["a: 1\nhunter2\nb: 2\n", "write `key: value`"],
    ["a: {b: 1}} hunter2\n", "check the indentation"],
    ['a: "\\d+hunter2"\n', "use single quotes"],
    ["a: 1\na: hunter2\n", "duplicate key `a`; keep one"],
    ["a: { b: hunter2\nc: 1\n", "a `{` or `[` above is not closed"],
    ['a: { b: "hunter2 }\n', "a quote above is not closed"],
    ["a: [hunter2 b: 1, c\n", "not closed"],
  ])("says what to do about %j, once a line and without repeating it", (text, remedy) => {
    const faults = faultsOf(text);
    expect(faults.map(({ message }) => message).join("\n")).toContain(remedy);
    expect(JSON.stringify(faults)).not.toContain("hunter2");
    expect(new Set(faults.map(({ line }) => line)).size).toBe(faults.length);
    expect(faults.every(({ line, column }) => line !== undefined && column !== undefined)).toBe(true);
  });

  it("has no tags of its own", () => {
    expect(faultsOf("a: !secret x\n")).toMatchObject([{ line: 1, column: 4 }]);
  });

  it("with an error in it says where", () => {
    expect(faultsOf("a:\n  - b\n c: [\n")).toMatchObject([{ line: 3 }, {}]);
    expect(faultsOf("a: 1\n---\nb: 2\n")).toEqual([
      { message: "a second document starts here; keep one, and take out the `---`", line: 2, column: 1 },
    ]);
  });
});

describe("a JSON file", () => {
  it("is JSON, also with the comments and trailing commas that editors allow", () => {
    expect(treeOf(readSource('\uFEFF{\n\t"a": {\n\t\t"b": [1, 2]\n\t}\n}', "json"))).toEqual({
      a: { b: [1, 2] },
    });
    expect(faultsOf("{ a: 1 }", "json")).toHaveLength(1);
    const edited = '{ // one\n "a": "//,}", /* two\n */ "b": [1,], }';
    expect(treeOf(readSource(edited, "json"))).toEqual({ a: "//,}", b: [1] });
    expect(faultsOf('{ "a": 1, , }', "json")).toHaveLength(1);
  });

  it("with an error in it says where, without repeating what stands there", () => {
    const unquoted = "not a JSON value; keys and text need double quotes";
    const comma = "a comma or a colon is missing before this";
    const end = "the file ends before its last `}` or `]`";
    const faults: readonly (readonly [text: string, message: string, line: number, column: number])[] = [
      ['{\n  "key": "hunter2",\n  "b": hunter3\n}', unquoted, 3, 8],
      ["{ key: 1 }", unquoted, 1, 3],
      ['{\n  "key": "hunter2"\n  "b": 1\n}', comma, 3, 3],
      ['{ "a" "b" }', comma, 1, 7],
      ['{ "ä": ', end, 1, 8],
      ["", "is empty", 1, 1],
      ["{ \"a\": 'hunter2' }", 'JSON has no single quotes; write `"`', 1, 8],
      ['{ "a": \u201Chunter2\u201D }', 'typographic quotes; write `"`', 1, 8],
      ["upstream:\n  demo: true", "a JSON file begins with `{`; the name of a YAML file ends in .yaml", 1, 1],
      ['{ "a": 1 } x', "invalid JSON from here on", 1, 12],
    ];
    for (const [text, message, line, column] of faults)
      expect(faultsOf(text, "json")).toEqual([{ message, line, column }]);
  });

  it("may not have a key twice, which JSON readers pass over in silence", () => {
    expect(faultsOf('{\n  "a": 1,\n  "a": 2\n}', "json")).toEqual([
      { message: "duplicate key `a`; keep one", line: 3, column: 3 },
    ]);
  });
});

describe("the place of a finding", () => {
  const source = readSource("listen:\n  port: 1\nroutes:\n  - x\n  - y: { z: 1 }\n", "yaml");
  const place = (path: (string | number)[], key?: string) =>
    source.ok ? source.placeOf({ path, ...(key === undefined ? {} : { key }) }) : undefined;

  it("is that of the key whose value is wrong", () => {
    expect(place(["listen", "port"])).toEqual({ line: 2, column: 3 });
    expect(place(["routes", 1, "y", "z"])).toEqual({ line: 5, column: 10 });
    expect(place(["routes", 0])).toEqual({ line: 4, column: 5 });
  });

  it("is that of a wrong key itself", () => {
    expect(place(["listen"], "port")).toEqual({ line: 2, column: 3 });
  });

  it("is that of what is around it where something is missing", () => {
    expect(place(["listen", "host"])).toEqual({ line: 1, column: 1 });
    expect(place(["nothing"])).toBeUndefined();
  });
});
