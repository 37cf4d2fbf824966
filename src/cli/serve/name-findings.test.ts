import { describe, expect, it } from "vitest";

import { parseConfig } from "../../config/load.ts";
import type { ConfigInput } from "../../config/schema.ts";
import { findUnusedNames, type Offered } from "./name-findings.ts";

type RouteInput = NonNullable<ConfigInput["routes"]>[string];

const upstreams = { one: { demo: true }, two: { demo: true, prefix: "" } } as const;

/** What is said about a route in front of servers that offer this. */
function warningsOf(route: RouteInput, offered: Partial<Offered> = {}): readonly string[] {
  const checked = parseConfig({ routes: { desk: { upstreams, ...route } } });
  if (!checked.ok) throw new Error(JSON.stringify(checked.problems));
  const upstream = checked.config.routes["desk"]?.upstream;
  if (upstream?.type !== "federation") throw new Error("one server only");
  const inputSchema = { type: "object", properties: { a: {}, b: {} } };
  const tools = ["one__add", "one__list", "sum"].map((name) => ({ name, inputSchema }));
  return findUnusedNames(upstream, {
    tools,
    prompts: ["one__greet"],
    notes: { degraded: [], clashes: [], cut: {} },
    ...offered,
  }).map(({ text }) => text);
}

const lacking = (...names: readonly string[]) => ({
  notes: { degraded: names.map((upstream) => ({ upstream })), clashes: [], cut: {} },
});

describe("names in the configuration of several servers", () => {
  it.each<[string, RouteInput, readonly string[]]>([
    [
      "overrides of tools",
      { overrides: { tools: { one__ad: {}, sum: {} } } },
      ["overrides.tools: no server offers `one__ad`"],
    ],
    [
      "overrides of arguments",
      { overrides: { tools: { one__add: { arguments: { a: { hide: true }, c: { fixed: 1 } } } } } },
      ["overrides.tools.one__add.arguments: the tool has no argument `c`"],
    ],
    [
      "tools that a server may offer",
      { upstreams: { ...upstreams, one: { demo: true, tools: { allow: ["add", "l*", "one__list", "x*"] } } } },
      ["`one__list`", "`x*`"].map((name) => `upstreams.one.tools.allow: the server has no tool ${name}`),
    ],
    [
      "views, which have the names of overrides",
      {
        overrides: { tools: { one__add: { name: "plus" }, one__list: { hide: true } } },
        views: { part: { tools: ["plus", "one__*", "s*"], prompts: ["one__greet", "greet"], resources: ["any:*"] } },
      },
      ["views.part.tools: no server offers `one__*`", "views.part.prompts: no server offers `greet`"],
    ],
    [
      "new names that other tools have",
      { overrides: { tools: { one__add: { name: "one__list" }, one__list: { title: "List" } } } },
      ["overrides.tools.one__add.name: another tool is called `one__list`, which is therefore not offered"],
    ],
    [
      "no new names that other tools had",
      {
        overrides: {
          tools: { one__add: { name: "one__list" }, one__list: { name: "one__all" }, one__x: { name: "one__add" } },
        },
      },
      ["overrides.tools: no server offers `one__x`"],
    ],
    ["all that fit", { views: { all: { tools: ["*"], prompts: ["*"] } } }, []],
  ])("are named where they fit nothing: %s", (_what, route, expected) => {
    expect(warningsOf(route)).toEqual(expected);
  });

  it("are not doubted where the server may be one whose list is missing", () => {
    const route: RouteInput = {
      overrides: { tools: { one__ad: {}, three: {} } },
      views: { part: { tools: ["one__x*", "o*", "other"] } },
    };
    const ofOne = ["overrides.tools: no server offers `one__ad`", "views.part.tools: no server offers `one__x*`"];
    const bare = ["overrides.tools: no server offers `three`", "views.part.tools: no server offers `other`"];
    expect(warningsOf(route).toSorted()).toEqual([...ofOne, ...bare].toSorted());
    expect(warningsOf(route, lacking("one")).toSorted()).toEqual(bare);
    expect(warningsOf(route, lacking("two"))).toEqual([]);
  });

  it("are compared with the servers' own names where those were cut", () => {
    const route: RouteInput = {
      upstreams: { ...upstreams, one: { demo: true, tools: { allow: ["a_name_that_is_cut", "gone"] } } },
    };
    const cut = "one__a_na_12345678";
    const offered = {
      tools: [{ name: cut }],
      notes: { degraded: [], clashes: [], cut: { [cut]: "a_name_that_is_cut" } },
    };
    expect(warningsOf(route, offered)).toEqual(["upstreams.one.tools.allow: the server has no tool `gone`"]);
  });
});
