import { globSync, readFileSync } from "node:fs";
import { join, resolve } from "node:path";

import { describe, expect, it } from "vitest";

import { revisionNames } from "../../src/protocol/revisions.ts";

const source = resolve(import.meta.dirname, "../../src");
const files = globSync("**/*.ts", { cwd: source }).filter((file) => !file.endsWith(".test.ts"));

/** The text of a file without its comments, where a revision may well be cited. */
function codeOf(file: string): string {
  return readFileSync(join(source, file), "utf8")
    .replaceAll(/\/\*[\s\S]*?\*\//gu, "")
    .replaceAll(/(?<=^|\s)\/\/.*$/gmu, "");
}

describe("revision dates", () => {
  it("[SC-002] stand in the table of revisions and nowhere else", () => {
    const isNamed = (code: string) => revisionNames.some((name) => code.includes(`"${name}"`));
    const naming = files.filter((file) => isNamed(codeOf(file)));
    expect(naming).toEqual([join("protocol", "revisions.ts")]);
  });
});

describe("the schema libraries", () => {
  const imports = (file: string, module: RegExp) =>
    [...codeOf(file).matchAll(/^import (?!type )[^;]*?from "(?<module>[^"]+)";/gmu)].some((match) =>
      module.test(match.groups?.["module"] ?? ""),
    );

  it("[SC-027] are imported by the schemas alone, which are loaded only on demand", () => {
    const inProtocol = files.filter((file) => file.startsWith("protocol"));
    const library = /^(?:zod|@modelcontextprotocol\/)/u;
    const schemas = /\/schema\//u;
    const outside = inProtocol.filter((file) => !file.startsWith(join("protocol", "validation", "schema")));
    expect(inProtocol.filter((file) => imports(file, library)).length).toBeGreaterThan(0);
    expect(outside.filter((file) => imports(file, library) || imports(file, schemas))).toEqual([]);
  });
});
