import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { spanOf } from "./outline.ts";
import type { MemberName, Outline } from "./outline.ts";
import { scan, skipSpace } from "./scan.ts";

/** The scanner's verdict on a whole text, as JSON.parse would give it: nothing may follow the value. */
function accepts(text: string, maxDepth = 1000): boolean {
  const bytes = Buffer.from(text);
  const outline = scan(bytes, 0, maxDepth);
  return outline.ok && skipSpace(bytes, outline.end, bytes.length) === bytes.length;
}

function parses(text: string): boolean {
  try {
    JSON.parse(text);
    return true;
  } catch {
    return false;
  }
}

function outlineOf(text: string): Outline {
  const outline = scan(Buffer.from(text), 0, 1000);
  if (!outline.ok) throw new Error(`${outline.reason} at ${outline.offset} in ${text}`);
  return outline;
}

/** JSON text with random spacing and number spellings, not just what JSON.stringify would write. */
const spacing = fc.constantFrom("", " ", "\n", "\t", "\r\n", "  ");
const numberText = fc.constantFrom("0", "-0", "1", "-12", "1.5", "0.25e10", "1E-7", "9007199254740993", "1e400");
const stringText = fc.oneof(
  fc.string({ unit: "grapheme" }).map((text) => JSON.stringify(text)),
  fc.constantFrom('"\\u0041"', '"\\ud83d\\ude00"', '"\\ud800"', '"\\/\\b\\f\\n\\r\\t\\"\\\\"', `"${"x".repeat(700)}"`),
  fc.string({ unit: "grapheme", minLength: 40, maxLength: 700 }).map((text) => JSON.stringify(text)),
);
const { jsonText } = fc.letrec<{ jsonText: string }>((tie) => ({
  jsonText: fc.oneof(
    { maxDepth: 5, depthIdentifier: "json" },
    fc.constantFrom("true", "false", "null"),
    numberText,
    stringText,
    fc
      .tuple(spacing, fc.array(tie("jsonText"), { maxLength: 4, depthIdentifier: "json" }), spacing)
      .map(([before, items, after]) => `[${before}${items.join(`${after},${before}`)}${after}]`),
    fc
      .tuple(
        spacing,
        fc.array(fc.tuple(stringText, tie("jsonText")), { maxLength: 4, depthIdentifier: "json" }),
        spacing,
      )
      .map(
        ([before, members, after]) =>
          `{${before}${members.map(([key, value]) => `${key}${after}:${before}${value}`).join(",")}${after}}`,
      ),
  ),
}));

describe("scan", () => {
  it("[SC-013] accepts all that JSON.parse accepts, whatever the spacing", () => {
    fc.assert(
      fc.property(jsonText, (text) => {
        expect(parses(text)).toBe(true);
        expect(accepts(text)).toBe(true);
      }),
      { numRuns: 2000 },
    );
  });

  it("[SC-014] refuses exactly what JSON.parse refuses when any byte is changed, removed or added", () => {
    const edit = fc.record({
      at: fc.nat(),
      remove: fc.nat({ max: 3 }),
      insert: fc.constantFrom(
        "",
        '"',
        "\\",
        "{",
        "}",
        "[",
        "]",
        ",",
        ":",
        "0",
        "-",
        ".",
        "e",
        "\u0000",
        "\u001f",
        " ",
        "u",
        "tru",
        "+",
      ),
    });
    fc.assert(
      fc.property(jsonText, edit, (text, { at, remove, insert }) => {
        const place = at % (text.length + 1);
        const changed = (text.slice(0, place) + insert + text.slice(place + remove)).toWellFormed();
        expect([changed, accepts(changed)]).toEqual([changed, parses(changed)]);
      }),
      { numRuns: 5000 },
    );
  });

  it("agrees with JSON.parse on arbitrary text", () => {
    fc.assert(
      fc.property(fc.string({ unit: "binary" }), (raw) => {
        const text = raw.toWellFormed();
        expect(accepts(text)).toBe(parses(text));
      }),
      { numRuns: 2000 },
    );
  });

  it("finds control characters wherever they stand in long strings", () => {
    for (const length of [1, 47, 48, 49, 511, 512, 513, 4095, 4096, 4097, 9000]) {
      for (const at of [0, 1, 2, 3, length >> 1, length - 1]) {
        const text = "y".repeat(length);
        const broken = `"${text.slice(0, at)}\u0001${text.slice(at + 1)}"`;
        expect([length, at, accepts(broken)]).toEqual([length, at, false]);
      }
      expect(accepts(`"${"y".repeat(length)}"`)).toBe(true);
      expect(accepts(`"${"y".repeat(length)}\\n${"é".repeat(length)}"`)).toBe(true);
      expect(accepts(`"${"y".repeat(length)}`)).toBe(false);
      expect(accepts(`"${"y".repeat(length)}\\`)).toBe(false);
      expect(accepts(`"${"y".repeat(length)}\\u12`)).toBe(false);
    }
  });

  it("works at every alignment of the underlying memory", () => {
    const text = `{"a":"${"z".repeat(600)}\\n${"w".repeat(600)}"}`;
    for (let shift = 0; shift < 8; shift++) {
      const memory = Buffer.alloc(text.length + shift + 3, 0x22);
      memory.write(text, shift);
      const outline = scan(memory.subarray(shift, shift + text.length), 0, 10);
      expect(outline).toMatchObject({ ok: true, end: text.length });
    }
  });

  it("reports where the fault is", () => {
    expect(scan(Buffer.from('{"a":1,}'), 0, 10)).toMatchObject({ reason: "json.syntax", offset: 7 });
    expect(scan(Buffer.from("[1,2"), 0, 10)).toMatchObject({ reason: "json.syntax", offset: 4 });
    expect(scan(Buffer.from('{"a" 1}'), 0, 10)).toMatchObject({ reason: "json.syntax", offset: 5 });
  });

  it("[SC-018] stops at the depth limit before going deeper, even at 10,000 levels", () => {
    expect(accepts("[".repeat(5) + "]".repeat(5), 5)).toBe(true);
    expect(scan(Buffer.from("[".repeat(6) + "]".repeat(6)), 0, 5)).toMatchObject({
      reason: "json.depth",
      offset: 5,
    });
    expect(scan(Buffer.from("[".repeat(10_000)), 0, 128)).toMatchObject({
      reason: "json.depth",
      offset: 128,
    });
  });
});

describe("duplicate member names", () => {
  const duplicateIn = (text: string) => outlineOf(text).duplicateAt;

  it("[SC-087] are found at any depth", () => {
    expect(duplicateIn('{"a":1,"a":2}')).toBe(7);
    expect(duplicateIn('{"a":{"b":[{"c":1,"d":2,"c":3}]}}')).toBe(24);
    expect(duplicateIn('{"a":{"x":1},"b":{"x":1}}')).toBe(-1);
    expect(duplicateIn('[{"x":1},{"x":1}]')).toBe(-1);
  });

  it("are found behind escapes and beyond ASCII", () => {
    expect(duplicateIn('{"name":1,"na\\u006de":2}')).toBeGreaterThan(0);
    expect(duplicateIn('{"na\\u006de":1,"name":2}')).toBeGreaterThan(0);
    expect(duplicateIn('{"größe":1,"gr\\u00f6\\u00dfe":2}')).toBeGreaterThan(0);
    expect(duplicateIn('{"größe":1,"grösse":2}')).toBe(-1);
  });

  it("are found among many siblings", () => {
    const members = Array.from({ length: 500 }, (_, index) => `"k${index}":${index}`);
    expect(duplicateIn(`{${members.join(",")}}`)).toBe(-1);
    for (const again of [0, 15, 16, 17, 499]) {
      expect(duplicateIn(`{${members.join(",")},"k${again}":1}`)).toBeGreaterThan(0);
    }
  });

  it("agree with a plain search on random objects", () => {
    const key = fc.oneof(fc.constantFrom("a", "b", "Aa", "BB", "é"), fc.string({ maxLength: 3 }));
    fc.assert(
      fc.property(fc.array(key, { maxLength: 30 }), (keys) => {
        const text = `{${keys.map((name) => `${JSON.stringify(name)}:0`).join(",")}}`;
        expect(duplicateIn(text) >= 0).toBe(new Set(keys).size < keys.length);
      }),
      { numRuns: 1000 },
    );
  });
});

describe("names in other letter case", () => {
  it("are found where servers read requests", () => {
    const variants = [
      '{"Method":"x"}',
      '{"params":{"name":"a","Name":"b"}}',
      '{"params":{"_meta":{"ProgressToken":1}}}',
      '{"param\u017f":{}}',
      '{"params":{"\u212aind":1,"URI":"x"}}',
    ];
    for (const text of variants) expect([text, outlineOf(text).caseVariantAt >= 0]).toEqual([text, true]);
  });

  it("are allowed in arguments and results", () => {
    for (const text of ['{"params":{"arguments":{"Name":1,"name":2}}}', '{"result":{"Tools":[]}}']) {
      expect([text, outlineOf(text).caseVariantAt]).toEqual([text, -1]);
    }
  });
});

describe("spans", () => {
  const text =
    ' {"jsonrpc":"2.0", "id" : 7,"method":"tools/call","params":{ "name":"weigh","arguments":{"crate":"C7","deep":{"name":"no"}},"_meta":{"progressToken":"p-1"}}} ';
  const at = (name: MemberName) => {
    const span = spanOf(outlineOf(text), name);
    return span === undefined ? undefined : text.slice(span.start, span.end);
  };

  it("[SC-012] cover exactly the source text of each known member", () => {
    expect(at("id")).toBe("7");
    expect(at("method")).toBe('"tools/call"');
    expect(at("params.name")).toBe('"weigh"');
    expect(at("params.arguments")).toBe('{"crate":"C7","deep":{"name":"no"}}');
    expect(at("params._meta")).toBe('{"progressToken":"p-1"}');
    expect(at("params._meta.progressToken")).toBe('"p-1"');
    expect(at("result")).toBeUndefined();
  });

  it("take a member only from its own level", () => {
    const nested =
      '{"params":{"arguments":{"uri":"x","_meta":{"progressToken":1}},"list":[{"name":"n"}]},"x":{"id":1}}';
    const outline = outlineOf(nested);
    for (const name of ["id", "params.uri", "params.name", "params._meta", "params._meta.progressToken"] as const) {
      expect([name, spanOf(outline, name)]).toEqual([name, undefined]);
    }
  });

  it("find names that are spelled with escapes", () => {
    const outline = outlineOf('{"m\\u0065thod":"ping"}');
    expect(spanOf(outline, "method")).toEqual({ start: 15, end: 21 });
  });
});
