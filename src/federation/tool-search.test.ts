import { describe, expect, it } from "vitest";

import { createToolIndex, createToolIndexes } from "./tool-search.ts";

const tools = [
  { name: "github__create_issue", description: "Creates an issue in a repository." },
  { name: "github__searchCode", description: "Searches code in repositories." },
  {
    name: "notes__write",
    description: "Writes a file.",
    inputSchema: { properties: { path: { description: "Where the note goes." } } },
  },
];

describe("a search for tools", () => {
  const namesFor = (query: string, limit = 5) =>
    createToolIndex(tools)
      .search(query, limit)
      .map(({ name }) => name);

  it.each([
    ["create an issue", "github__create_issue"],
    ["search code", "github__searchCode"],
    ["ISSUES", "github__create_issue"],
    ["where a note is written to a file", "notes__write"],
    ["repository", "github__create_issue"],
  ])("puts the best one for %s first", (query, name) => {
    expect(namesFor(query)[0]).toBe(name);
  });

  it("finds nothing where no word fits, and no more than asked for", () => {
    expect(namesFor("weather")).toEqual([]);
    expect(namesFor("")).toEqual([]);
    expect(namesFor("repository", 1)).toHaveLength(1);
    expect(createToolIndex([]).search("x", 5)).toEqual([]);
  });

  it("reads the first words of a query only, however many there are", () => {
    const others = (count: number): string => Array.from({ length: count }, (_, index) => `x${index}`).join(" ");
    expect(namesFor(`${others(20)} issue`)).toEqual(["github__create_issue"]);
    expect(namesFor(`${others(100)} issue`)).toEqual([]);
  });

  it("shares an index between equal lists", () => {
    const indexOf = createToolIndexes();
    expect(indexOf(tools)).toBe(indexOf(structuredClone(tools)));
    expect(indexOf(tools.slice(1))).not.toBe(indexOf(tools));
  });
});
