import { describe, expect, it } from "vitest";

import { createFakeTime, type FakeTime, settled } from "../../../test/support/fake-time.ts";
import { listFacts } from "../names/list-facts.ts";
import type { CatalogueEntry } from "./catalogue-entries.ts";
import { ChangeNotices } from "./change-notices.ts";

const tools = listFacts("tools/list");
const templates = listFacts("resources/templates/list");

const listOf = (...names: readonly string[]): readonly CatalogueEntry[] =>
  names.map((name) => ({ member: "m", name, advertised: name, json: JSON.stringify({ name }) }));

interface Made {
  readonly notices: ChangeNotices;
  readonly time: FakeTime;
  readonly told: readonly string[];
  /** Sets what a list holds from now on. */
  readonly set: (method: string, entries: readonly CatalogueEntry[] | Error) => void;
  /** A member reports a change, and what follows from it has happened. */
  readonly change: (capability: string) => Promise<void>;
}

/** A client that sees everything but names with `hidden` in them. */
function make(): Made {
  const time = createFakeTime();
  const told: string[] = [];
  const lists = new Map<string, readonly CatalogueEntry[] | Error>();
  const notices = new ChangeNotices({
    setTimer: time.setTimer,
    turn: async () => {},
    read: async ({ method }) => {
      const list = lists.get(method) ?? [];
      if (list instanceof Error) throw list;
      return list;
    },
    isVisible: (_facts, entries) => entries.some(({ name }) => !name.includes("hidden")),
    tell: (capability) => told.push(capability),
  });
  return {
    notices,
    time,
    told,
    set: (method, entries) => lists.set(method, entries),
    change: async (capability) => {
      notices.changed(capability);
      await time.advance(250);
      await settled();
    },
  };
}

describe("notices about changed lists", () => {
  it.each<[string, readonly string[], readonly string[], boolean]>([
    ["nothing changed", ["a", "b"], ["a", "b"], false],
    ["a tool came", ["a"], ["a", "b"], true],
    ["a tool went", ["a", "b"], ["a"], true],
    ["the order changed", ["a", "b"], ["b", "a"], true],
    ["a hidden tool came", ["a"], ["a", "hidden"], false],
    ["a hidden tool went", ["a", "hidden"], ["a"], false],
    ["a hidden tool became a visible one", ["hidden"], ["a"], true],
    ["the first tool came", [], ["a"], true],
  ])("are told where the client sees it: %s", async (_what, before, now, isTold) => {
    const { notices, told, set, change } = make();
    notices.listed(tools, listOf(...before));
    set("tools/list", listOf(...now));
    await change("tools");
    expect(told).toEqual(isTold ? ["tools"] : []);
    // What has been told is what the client knows.
    await change("tools");
    expect(told).toHaveLength(isTold ? 1 : 0);
  });

  it("are told once for changes at the same time", async () => {
    const { notices, told, set, change } = make();
    notices.listed(tools, listOf("a"));
    set("tools/list", listOf("b"));
    notices.changed("tools");
    notices.changed("tools");
    await change("tools");
    expect(told).toEqual(["tools"]);
  });

  it("are told once for changes within a quarter of a second, also to a client that has read nothing", async () => {
    const { notices, time, told } = make();
    const pass = async (ms: number): Promise<void> => {
      await time.advance(ms);
      await settled();
    };
    notices.changed("tools");
    await pass(200);
    notices.changed("tools");
    await pass(49);
    expect(told).toEqual([]);
    await pass(1);
    expect(told).toEqual(["tools"]);
    await pass(1000);
    expect(told).toEqual(["tools"]);
    notices.changed("tools");
    await pass(250);
    expect(told).toEqual(["tools", "tools"]);
  });

  it("are told to a client that has read nothing, or only a part", async () => {
    const { notices, told, change } = make();
    await change("tools");
    notices.listed(tools, listOf("a"));
    notices.listed(tools, undefined);
    await change("tools");
    expect(told).toEqual(["tools", "tools"]);
  });

  it("compare every list of a capability that the client has read", async () => {
    const { notices, told, set, change } = make();
    notices.listed(templates, listOf("x://{a}"));
    set("resources/list", listOf("x://1"));
    set("resources/templates/list", listOf("x://{a}"));
    await change("resources");
    expect(told).toEqual([]);
    set("resources/templates/list", listOf("x://{b}"));
    await change("resources");
    expect(told).toEqual(["resources"]);
  });

  it("are told where the list cannot be read", async () => {
    const { notices, told, set, change } = make();
    notices.listed(tools, listOf("a"));
    set("tools/list", new Error("down"));
    await change("tools");
    expect(told).toEqual(["tools"]);
  });

  it("compare with the lists at the beginning, unless they changed while those were read", async () => {
    const { notices, told, set, change } = make();
    set("tools/list", listOf("a"));
    await notices.remember("tools");
    await change("tools");
    expect(told).toEqual([]);
    const again = make();
    const reading = again.notices.remember("tools");
    again.notices.changed("tools");
    await reading;
    await again.time.advance(250);
    expect(again.told).toEqual(["tools"]);
  });

  it("do not trust a list that another client of the caller knows otherwise", async () => {
    const { notices, told, set, change } = make();
    set("tools/list", listOf("a"));
    await notices.remember("tools");
    notices.listedBySomebody(tools, listOf("a"));
    await change("tools");
    expect(told).toEqual([]);
    notices.listedBySomebody(tools, listOf("b"));
    await change("tools");
    expect(told).toEqual(["tools"]);
  });
});
