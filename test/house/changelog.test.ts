import { readFileSync } from "node:fs";
import { describe, expect, it } from "vitest";

const changelog = readFileSync(new URL("../../CHANGELOG.md", import.meta.url), "utf8");
const [, unreleased = ""] = /^## Unreleased\n(.*?)(?=^## |(?![^]))/msu.exec(changelog) ?? [];
const [before = "", ...groups] = unreleased.split(/^### /mu);
const bulletsOf = (text: string): readonly string[] =>
  text
    .split(/^- /mu)
    .slice(1)
    .map((bullet) => bullet.replaceAll(/\s+/gu, " ").trim());

describe("the changelog", () => {
  it("has every change of the next version in a group", () => {
    expect(groups.length).toBeGreaterThan(0);
    expect(bulletsOf(before)).toEqual([]);
    expect(groups.filter((group) => bulletsOf(group).length === 0)).toEqual([]);
  });

  it("says everything once, in a few lines", () => {
    const bullets = groups.flatMap(bulletsOf);
    expect(new Set(bullets).size).toBe(bullets.length);
    expect(bullets.filter((bullet) => bullet.length > 400)).toEqual([]);
  });
});
