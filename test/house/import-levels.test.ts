import { copyFileSync, globSync, mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { dirname, join, relative, resolve, sep } from "node:path";

import { afterAll, describe, expect, it } from "vitest";

import { runTool } from "../../scripts/run/tool.ts";
import {
  levels,
  mayImport,
  mayImportRoom,
  roomOf,
  rooms,
  rootFiles,
  surfaces,
  type Unit,
} from "../../scripts/generate/import-levels.ts";

const repository = resolve(import.meta.dirname, "../..");
const source = join(repository, "src");
const units: readonly Unit[] = levels.flat();

/** Every module that a file names in an import, an export from, or a dynamic import. */
function importsOf(file: string): string[] {
  const text = readFileSync(file, "utf8");
  return [...text.matchAll(/(?:\bfrom\s*|\bimport\s*\(?\s*)"(?<module>[^"]+)"/gu)].flatMap(
    (match) => match.groups?.["module"] ?? [],
  );
}

function unitOf(path: string): Unit | undefined {
  const name = relative(source, path)
    .split(sep)[0]
    ?.replace(/(?:\.test)?\.ts$/u, "");
  return units.find((unit) => unit === name);
}

/** Tests may reach across the rooms of their unit. */
function mayCrossRooms(unit: Unit, file: string, target: string): boolean {
  if (file.endsWith(".test.ts") || unitOf(target) !== unit) return true;
  const home = (path: string): string => roomOf(unit, relative(join(source, unit), path).split(sep).join("/"));
  return mayImportRoom(unit, home(file), home(target));
}

describe("the source tree", () => {
  const files = globSync("**/*.ts", { cwd: source }).map((file) => join(source, file));

  it("has only units that stand in the table of levels", () => {
    const strangers = files.filter((file) => unitOf(file) === undefined);
    expect(strangers.map((file) => relative(repository, file))).toEqual([]);
  });

  it("has only rooms that stand in the table, where a unit has one", () => {
    const strangers = files.filter((file) => {
      const unit = unitOf(file);
      const rows = unit === undefined ? undefined : rooms[unit];
      if (unit === undefined || rows === undefined || rootFiles.has(unit)) return false;
      return !rows.flat().includes(roomOf(unit, relative(join(source, unit), file).split(sep).join("/")));
    });
    expect(strangers.map((file) => relative(repository, file))).toEqual([]);
  });

  it("has at most 20 source files side by side in a folder", () => {
    const sizes = Map.groupBy(
      files.filter((file) => !file.endsWith(".test.ts")),
      (file) => relative(repository, dirname(file)),
    );
    expect([...sizes].filter(([, inside]) => inside.length > 20).map(([folder]) => folder)).toEqual([]);
  });

  it("imports downwards only, dynamic imports included", () => {
    const breaches = files.flatMap((file) => {
      const from = unitOf(file);
      return importsOf(file).flatMap((module) => {
        if (!module.startsWith(".")) return [];
        const target = resolve(dirname(file), module);
        const outside = relative(source, target).startsWith("..");
        // Tests may use fixtures and fakes from test/; nothing that is shipped may leave src/.
        if (outside && file.endsWith(".test.ts")) return [];
        const to = outside ? undefined : unitOf(target);
        const allowed =
          from !== undefined && to !== undefined && mayImport(from, to) && mayCrossRooms(from, file, target);
        return allowed ? [] : [`${relative(repository, file)} imports ${module}`];
      });
    });
    expect(breaches).toEqual([]);
  });
});

describe("CONTRIBUTING.md", () => {
  it("shows the same levels", () => {
    const text = readFileSync(join(repository, "CONTRIBUTING.md"), "utf8");
    const shown = levels.map((_names, level) => {
      const line = text.split("\n").find((candidate) => candidate.startsWith(`${level} `)) ?? "";
      // Names stand two blanks apart, a remark further away.
      return line.slice(2).split(/ {3,}/u)[0]?.split("  ");
    });
    expect(shown).toEqual(levels.map((names) => names.filter((name) => !surfaces.has(name))));
  });
});

describe("the lint configuration", () => {
  const folder = mkdtempSync(join(tmpdir(), "headgate-levels-"));
  copyFileSync(join(repository, ".oxlintrc.json"), join(folder, ".oxlintrc.json"));
  afterAll(() => rmSync(folder, { recursive: true, force: true }));

  /** Where a unit's planted file stands, and how other units name it. */
  const home = (unit: Unit): string => (rootFiles.has(unit) ? `${unit}.ts` : `${unit}/planted.ts`);
  const specifier = (from: Unit, to: Unit): string => `${rootFiles.has(from) ? "./" : "../"}${home(to)}`;

  // The public surface may import everything, and only the walk above guards it: a folder's own index.ts
  // looks the same to a pattern.
  const pairs = units
    .flatMap((from) => units.map((to) => ({ from, to })))
    .filter(({ from, to }) => from !== to && !surfaces.has(to));

  async function lint(file: string): Promise<string> {
    return (await runTool(["oxlint", "-f", "unix", file], { cwd: folder })).output;
  }

  it("refuses exactly the imports that the table of levels forbids", async () => {
    for (const from of units) {
      const file = join(folder, "src", home(from));
      mkdirSync(dirname(file), { recursive: true });
      const lines = pairs.filter((pair) => pair.from === from);
      writeFileSync(file, lines.map(({ to }) => `export * from "${specifier(from, to)}";\n`).join(""));
    }

    const output = await lint("src");
    const refused = pairs.filter(({ from, to }) => {
      const line = pairs.filter((pair) => pair.from === from).findIndex((pair) => pair.to === to) + 1;
      return output
        .split("\n")
        .some((text) => text.includes(`src/${home(from)}:${line}:`) && text.includes("no-restricted-imports"));
    });
    const name = ({ from, to }: { from: Unit; to: Unit }): string => `${from} imports ${to}`;
    expect(refused.map(name)).toEqual(pairs.filter(({ from, to }) => !mayImport(from, to)).map(name));
  });

  it("refuses exactly the rooms that the table of rooms forbids", async () => {
    const planted: {
      readonly place: string;
      readonly line: number;
      readonly name: string;
      readonly allowed: boolean;
    }[] = [];
    for (const unit of units) {
      const names = rooms[unit]?.flat() ?? [];
      for (const from of names) {
        const here = from === "." ? "planted-room.ts" : from.endsWith(".ts") ? from : `${from}/planted-room.ts`;
        const up = from === "." || from.endsWith(".ts") ? "./" : "../";
        const others = names.filter((to) => to !== from);
        const lines = others.map((to) => {
          const there = to === "." ? "other.ts" : to.endsWith(".ts") ? to : `${to}/other.ts`;
          return `export * from "${up}${there}";\n`;
        });
        const file = join(folder, "src", unit, here);
        mkdirSync(dirname(file), { recursive: true });
        writeFileSync(file, lines.join(""));
        for (const [index, to] of others.entries())
          planted.push({
            place: `src/${unit}/${here}`,
            line: index + 1,
            name: `${unit}: ${from} imports ${to}`,
            allowed: mayImportRoom(unit, from, to),
          });
      }
    }
    const output = (await lint("src")).split("\n");
    const refused = planted.filter(({ place, line }) =>
      output.some((text) => text.includes(`${place}:${line}:`) && text.includes("no-restricted-imports")),
    );
    expect(refused.map(({ name }) => name)).toEqual(planted.filter(({ allowed }) => !allowed).map(({ name }) => name));
  });

  it.each([
    ["process.env", `export const home = process.env["HOME"];`],
    ["the clock", `export const now = Date.now();`],
    ["chance", `export const dice = Math.random();`],
    ["a timer", `export const timer = setTimeout(() => {}, 1);`],
    ["a file", `export { readFileSync } from "node:fs";`],
  ])("refuses %s in the pure protocol folder", async (_what, text) => {
    const planted = join(folder, "src/protocol/impure.ts");
    mkdirSync(dirname(planted), { recursive: true });
    writeFileSync(planted, `${text}\n`);
    const output = await lint("src/protocol/impure.ts");
    rmSync(planted);
    expect(output).toMatch(/src\/protocol\/impure\.ts:1:.*no-restricted-(?:globals|properties|imports)/u);
  });
});
