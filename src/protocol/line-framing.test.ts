import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { createLineReader, frameLine } from "./line-framing.ts";
import { stdioLineLimit } from "./message.ts";
import { parse } from "./parse.ts";

/** All that a reader reports for these chunks, in order. */
function read(chunks: readonly (string | Uint8Array)[], maxLineBytes?: number): unknown[] {
  const seen: unknown[] = [];
  const reader = createLineReader({
    ...(maxLineBytes !== undefined && { maxLineBytes }),
    onLine: (line) => seen.push(line.toString("latin1")),
    onOverflow: ({ limit }) => seen.push({ limit }),
  });
  for (const chunk of chunks) reader.push(typeof chunk === "string" ? Buffer.from(chunk) : chunk);
  const end = reader.end();
  seen.push(end.complete ? "end" : { rest: end.rest?.toString("latin1") });
  return seen;
}

function cut(bytes: Buffer, places: readonly number[]): Buffer[] {
  const inside = places.map((place) => place % (bytes.length + 1)).toSorted((a, b) => a - b);
  return [0, ...inside].map((start, i) => bytes.subarray(start, inside[i] ?? bytes.length));
}

describe("reading lines", () => {
  it("[SC-019] splits at LF, reads CR LF as one line end and skips blank lines", () => {
    expect(read(["a\nb\r\n\n\r\n \t\r\n c \n"])).toEqual(["a", "b", " c ", "end"]);
  });

  it("[SC-019] buffers a partial line across chunks", () => {
    expect(read(["a", "", "b\nc", "\r", "\nd\r", "e\n"])).toEqual(["ab", "c", "d\re", "end"]);
  });

  it("[SC-086] reads a lone CR as content", () => {
    expect(read(["a\rb\n\rc\r\r\n"])).toEqual(["a\rb", "\rc\r", "end"]);
  });

  it("[SC-086] reports an unfinished last line", () => {
    expect(read(["a\nb"])).toEqual(["a", { rest: "b" }]);
    expect(read(["a\nb\r"])).toEqual(["a", { rest: "b" }]);
    expect(read(["a\n \r"])).toEqual(["a", "end"]);
  });

  it("[SC-019, SC-086] continues after anything that is not a message", () => {
    const ping = (id: number) => `{"jsonrpc":"2.0","id":${id},"method":"é漢😀"}`;
    const bytes = Buffer.concat([
      Buffer.from(`\u{feff}${ping(1)}\n${ping(2)}\r\n\nServer listening on stdio\n${ping(3)}${ping(4)}\n`),
      Buffer.from([0xff, 0xfe, 0x0a]),
      Buffer.from(`${ping(5)}\r${ping(6)}\n${ping(7)}\n{"jsonrpc":\n${ping(8)}`),
    ]);
    fc.assert(
      fc.property(fc.array(fc.nat(), { maxLength: 20 }), (places) => {
        const outcomes: unknown[] = [];
        const take = (line: Buffer) => {
          const outcome = parse(line, { revision: "2025-11-25", mode: "enforce" });
          if (!outcome.ok) outcomes.push(outcome.failure.reason);
          else if (outcome.form === "single") outcomes.push(outcome.message.id?.json, outcome.message.method);
        };
        const reader = createLineReader({ onLine: take });
        for (const chunk of cut(bytes, places)) reader.push(chunk);
        const end = reader.end();
        if (!end.complete && end.rest !== undefined) take(end.rest);
        expect(outcomes).toEqual([
          "json.bom",
          "2",
          "é漢😀",
          "json.syntax",
          "json.syntax",
          "json.utf8",
          "json.syntax",
          "7",
          "é漢😀",
          "json.syntax",
          "8",
          "é漢😀",
        ]);
      }),
    );
  });

  it("[SC-019, SC-086] gives the same result for any split of any input", () => {
    const input = fc
      .array(fc.constantFrom("\n", "\n", "\r\n", "\r", "a", "bcd", " ", "é", "😀"), {
        size: "max",
        maxLength: 40,
      })
      .map((pieces) => Buffer.from(pieces.join("")));
    fc.assert(
      fc.property(
        input,
        fc.array(fc.nat(), { maxLength: 10 }),
        fc.integer({ min: 0, max: 12 }),
        (bytes, places, limit) => {
          const whole = read([bytes], limit);
          expect(read(cut(bytes, places), limit)).toEqual(whole);
          expect(
            read(
              Array.from(bytes, (byte) => new Uint8Array([byte])),
              limit,
            ),
          ).toEqual(whole);
        },
      ),
      { numRuns: 2000 },
    );
  });

  it("gives a line that one chunk holds without copying it", () => {
    const chunk = Buffer.from("abc\ndef\n");
    const lines: Buffer[] = [];
    createLineReader({ onLine: (line) => lines.push(line) }).push(chunk);
    expect(lines.map((line) => line.byteOffset - chunk.byteOffset)).toEqual([0, 4]);
    expect(lines.every((line) => line.buffer === chunk.buffer)).toBe(true);
  });
});

describe("a line that is too long", () => {
  it("is reported once and skipped, and the next one is read", () => {
    expect(read(["12345\n1234\n12345\r\n1234\r\n1\n"], 4)).toEqual([
      { limit: 4 },
      "1234",
      { limit: 4 },
      "1234",
      "1",
      "end",
    ]);
    expect(read(["123", "45", "67\n89\n"], 4)).toEqual([{ limit: 4 }, "89", "end"]);
  });

  it("is reported before it ends, with its size so far", () => {
    const overflows: unknown[] = [];
    const reader = createLineReader({
      maxLineBytes: 10,
      onLine: () => expect.unreachable(),
      onOverflow: (overflow) => overflows.push(overflow),
    });
    reader.push(Buffer.alloc(8, 0x61));
    expect(overflows).toEqual([]);
    reader.push(Buffer.alloc(8, 0x61));
    reader.push(Buffer.alloc(8, 0x61));
    expect(overflows).toEqual([{ limit: 10, size: 16 }]);
    expect(reader.end()).toEqual({ complete: false, rest: undefined });
  });

  it("leaves both its ends and its size when it has ended, however it is cut", () => {
    const line = Buffer.from(Array.from({ length: 3000 }, (_, i) => 0x61 + (i % 26)));
    const bytes = Buffer.concat([Buffer.from("a\n"), line, Buffer.from("\nb\n")]);
    fc.assert(
      fc.property(fc.array(fc.nat(), { maxLength: 20 }), (places) => {
        const seen: unknown[] = [];
        const reader = createLineReader({
          maxLineBytes: 100,
          onLine: (taken) => seen.push(taken.toString()),
          onSkipped: (skipped) => seen.push(skipped),
        });
        for (const chunk of cut(bytes, places)) reader.push(chunk);
        const skipped = { limit: 100, size: 3000, start: line.subarray(0, 1024), end: line.subarray(-1024) };
        expect(seen).toEqual(["a", skipped, "b"]);
      }),
    );
  });

  it("[SC-018] has 4 MiB unless told otherwise", () => {
    const line = Buffer.alloc(stdioLineLimit, 0x61);
    const pieces = Array.from({ length: 4096 }, (_, i) => line.subarray(i * 1024, (i + 1) * 1024));
    expect(read([...pieces, "\n"])).toEqual([line.toString(), "end"]);
    expect(read([...pieces, "a\nb\n"])).toEqual([{ limit: 4 * 1024 * 1024 }, "b", "end"]);
  });
});

describe("framing a line", () => {
  it("puts pretty-printed JSON on one line and ends it", () => {
    expect(frameLine(Buffer.from('{\r\n\t"a": "x\\n",\n"b":1\r}\n')).toString()).toBe('{  \t"a": "x\\n", "b":1 } \n');
  });

  it("keeps every value, and every byte of JSON without raw line breaks", () => {
    fc.assert(
      fc.property(fc.jsonValue(), fc.constantFrom(0, 1, "\t", "\r\n"), (value, indent) => {
        const text = JSON.stringify(value, undefined, indent);
        const seen = read([frameLine(Buffer.from(text))]);
        expect(seen).toHaveLength(2);
        const line = Buffer.from(String(seen[0]), "latin1").toString();
        expect(JSON.parse(line)).toEqual(JSON.parse(text));
        if (indent === 0) expect(line).toBe(text);
      }),
    );
  });

  it("leaves the given bytes alone", () => {
    const json = Buffer.from("[\n]");
    frameLine(json);
    expect(json.toString()).toBe("[\n]");
  });
});
