import { describe, expect, it } from "vitest";
import { Link, LinkList } from "./link-list.ts";

function itemsOf(list: LinkList<string>): string[] {
  const items: string[] = [];
  for (let link = list.first; link !== undefined; link = link.next) items.push(link.item);
  return items;
}

function listOf(...items: readonly string[]): { list: LinkList<string>; links: readonly Link<string>[] } {
  const list = new LinkList<string>();
  const links = items.map((item) => new Link(item));
  for (const link of links) list.append(link);
  return { list, links };
}

describe("a link list", () => {
  it("keeps the order of joining", () => {
    const { list } = listOf("a", "b", "c");
    expect(itemsOf(list)).toEqual(["a", "b", "c"]);
    expect(list.size).toBe(3);
    expect(list.last?.item).toBe("c");
  });

  it.each([
    [0, ["b", "c"]],
    [1, ["a", "c"]],
    [2, ["a", "b"]],
  ])("closes the gap where the link at %i leaves", (index, left) => {
    const { list, links } = listOf("a", "b", "c");
    links[index]?.leave();
    expect(itemsOf(list)).toEqual(left);
    expect(list.last?.item).toBe(left.at(-1));
    expect(list.size).toBe(2);
  });

  it("is empty when all have left, and a link may leave twice and join again", () => {
    const { list, links } = listOf("a", "b");
    for (const link of [...links, ...links]) link.leave();
    expect(list).toMatchObject({ first: undefined, last: undefined, size: 0 });
    const [a] = links;
    if (a !== undefined) list.append(a);
    expect(itemsOf(list)).toEqual(["a"]);
  });

  it("leaves nothing behind in a link that has left", () => {
    const { links } = listOf("a", "b", "c");
    links[1]?.leave();
    expect(links[1]).toMatchObject({ list: undefined, previous: undefined, next: undefined });
  });
});
