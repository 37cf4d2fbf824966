import { globSync, readFileSync } from "node:fs";
import { resolve } from "node:path";

import { describe, expect, it } from "vitest";

const root = resolve(import.meta.dirname, "../..");
const page = readFileSync(resolve(root, "bench/README.md"), "utf8");

/** The bench rows that a file says it needs, in comments that may go over several lines. */
function rowsNamedIn(file: string): readonly { readonly file: string; readonly bench: string; readonly row: string }[] {
  const text = readFileSync(resolve(root, file), "utf8").replaceAll(/\n\s*(?:\/\/|\*)\s?/gu, " ");
  return [
    ...text.matchAll(/Needed by bench (?<bench>[\w-]+): (?<rows>"[^"]+"(?:(?:,| and|, and) "[^"]+")*)/gu),
  ].flatMap(({ groups: { bench = "", rows = "" } = {} }) =>
    [...rows.matchAll(/"(?<row>[^"]+)"/gu)].map(({ groups }) => ({ file, bench, row: groups?.["row"] ?? "" })),
  );
}

const named = globSync("src/**/*.ts", { cwd: root })
  .filter((file) => !file.includes(".test."))
  .flatMap(rowsNamedIn);

describe("code that is complicated for speed", () => {
  it("names a bench that exists, and a row of it", () => {
    expect(named.length).toBeGreaterThan(20);
    const wrong = named.filter(({ bench, row }) => {
      const [file] = globSync(`bench/${bench}.bench.ts`, { cwd: root });
      if (file === undefined) return true;
      return !page.includes(row) && !readFileSync(resolve(root, file), "utf8").includes(row);
    });
    expect(wrong).toEqual([]);
  });
});
