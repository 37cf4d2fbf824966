import { globSync, readFileSync } from "node:fs";
import { basename, resolve } from "node:path";

import { describe, expect, it } from "vitest";

const root = resolve(import.meta.dirname, "../..");

const sources = globSync("src/**/*.ts", { cwd: root })
  .filter((file) => !file.includes(".test."))
  .map((file) => ({ file, text: readFileSync(resolve(root, file), "utf8") }));

/** Words that need a gloss, and what we say instead. */
const replacedWords: Readonly<Record<string, string>> = {
  passage: "binding",
  farewell: "drain options",
  forecourt: "request checks",
  turnstile: "turn limiter",
  tally: "counter",
  errand: "call observer",
  ruling: "decision",
  pauseboard: "held messages",
};

describe("names", () => {
  it("are exported by one file each, so that a name means one thing", () => {
    const files = new Map<string, Set<string>>();
    for (const { file, text } of sources)
      for (const { groups } of text.matchAll(
        /^export (?:declare |abstract |async )*(?:function\*?|const|class|interface|type) (?<name>\w+)/gmu,
      ))
        files.set(groups?.["name"] ?? "", (files.get(groups?.["name"] ?? "") ?? new Set()).add(file));
    expect(files.size).toBeGreaterThan(1000);
    const repeated = [...files].filter(([, inside]) => inside.size > 1);
    expect(repeated.map(([name, inside]) => `${name}: ${[...inside].join(", ")}`)).toEqual([]);
  });

  it("are words of the field, in code and file names", () => {
    const found = sources.flatMap(({ file, text }) =>
      Object.keys(replacedWords).filter((word) =>
        new RegExp(String.raw`\b(?:create)?${word}\b`, "iu").test(`${basename(file)}\n${text}`),
      ),
    );
    expect(found).toEqual([]);
  });

  it("of constructor arguments end in Options or Deps", () => {
    const odd = sources.flatMap(({ file, text }) =>
      [...text.matchAll(/^export (?:interface|type) (?<name>\w+(?:Surroundings|Opts|Args|Props))\b/gmu)].map(
        ({ groups }) => `${file}: ${groups?.["name"] ?? ""}`,
      ),
    );
    expect(odd).toEqual([]);
  });
});
