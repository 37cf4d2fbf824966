import { globSync, readFileSync } from "node:fs";
import { dirname, join, resolve } from "node:path";

import { describe, expect, it } from "vitest";

import { errorTable } from "../../src/errors.ts";

const root = resolve(import.meta.dirname, "../..");

function linksOf(page: string): string[] {
  const text = readFileSync(join(root, page), "utf8");
  return [...text.matchAll(/\]\((?<link>[^)\s#]+)[^)]*\)/gu)].map(({ groups }) =>
    join(dirname(page), groups?.["link"] ?? ""),
  );
}

describe("the documentation", () => {
  it("has every page in its index or in the README", () => {
    const listed = new Set(["docs/README.md", ...linksOf("README.md"), ...linksOf("docs/README.md")]);
    const pages = globSync("docs/**/*.md", { cwd: root });
    expect(pages.filter((page) => !listed.has(page)).toSorted()).toEqual([]);
  });

  it("is reached from the README", () => {
    expect(linksOf("README.md")).toContain("docs/README.md");
  });

  it("says what to do about every error, and about no other", () => {
    const text = readFileSync(join(root, "docs/troubleshooting.md"), "utf8");
    const told = [...text.matchAll(/^### (?<code>\w+)\n\n(?<advice>\S)/gmu)].map(
      ({ groups }) => groups?.["code"] ?? "",
    );
    expect(told.toSorted()).toEqual(Object.keys(errorTable).toSorted());
  });
});
