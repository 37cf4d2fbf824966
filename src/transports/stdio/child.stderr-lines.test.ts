import fc from "fast-check";
import { describe, expect, it } from "vitest";

import { createStderrLines } from "./child.ts";

function split(chunks: readonly (string | Buffer)[]): { lines: string[]; tail: readonly string[] } {
  const lines: string[] = [];
  const splitter = createStderrLines((line) => lines.push(line));
  for (const chunk of chunks) splitter.push(Buffer.from(chunk));
  splitter.end();
  return { lines, tail: splitter.tail() };
}

describe("lines of standard error", () => {
  it("end with LF, CR LF or CR; blank ones are left out", () => {
    expect(split(["one\ntwo\r\n\n10 %\r20 %\r", "thr", "ee"]).lines).toEqual(["one", "two", "10 %", "20 %", "three"]);
  });

  it("are cut when they are too long, so that little is held", () => {
    const { lines } = split(["x".repeat(20_000), "\nshort\n"]);
    expect(lines.map((line) => line.length)).toEqual([8192, 8192, 3616, 5]);
  });

  it("are remembered, the last ten", () => {
    const { tail } = split(Array.from({ length: 30 }, (_, index) => `line ${index}\n`));
    expect(tail).toHaveLength(10);
    expect(tail.at(-1)).toBe("line 29");
  });

  it("are the same wherever the chunks are cut", () => {
    fc.assert(
      fc.property(
        fc.string({ unit: fc.constantFrom("a", "é", "🚀", "\n", "\r", " ") }),
        fc.array(fc.nat({ max: 60 })),
        (text, cuts) => {
          const bytes = Buffer.from(text);
          const edges = [0, ...cuts.filter((cut) => cut < bytes.length).toSorted((a, b) => a - b), bytes.length];
          const chunks = edges.slice(1).map((edge, index) => bytes.subarray(edges[index], edge));
          expect(split(chunks).lines).toEqual(split([bytes]).lines);
        },
      ),
    );
  });
});
