import { existsSync, readdirSync, readFileSync } from "node:fs";
import { resolve } from "node:path";

import { describe, expect, it } from "vitest";

const root = resolve(import.meta.dirname, "../..");
const page = readFileSync(resolve(root, "docs/architecture.md"), "utf8");

/** Everything in backticks on the page that looks like a path of this repository. */
const named = [...page.matchAll(/`(?<path>(?:bench|bin|docs|requirements|scripts|src|test)\/[^`\s]*)`/gu)].map(
  (match) => match.groups?.["path"] ?? "",
);

describe("docs/architecture.md", () => {
  it("names only files and folders that exist", () => {
    expect(named.length).toBeGreaterThan(10);
    expect(named.filter((path) => !existsSync(resolve(root, path)))).toEqual([]);
  });

  it("has a row for every folder of src/", () => {
    const folders = readdirSync(resolve(root, "src"), { withFileTypes: true }).filter((entry) => entry.isDirectory());
    expect(folders.map(({ name }) => `src/${name}/`).filter((path) => !named.includes(path))).toEqual([]);
  });
});
