import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { hashKey, KeyIndex, KeyNode } from "./key-index.ts";

describe("a key index", () => {
  it("behaves like a map from space and text to a stack of items, for any sequence of steps", () => {
    const step = fc.record({
      type: fc.constantFrom("add", "delete"),
      space: fc.integer({ min: -3, max: 3 }),
      key: fc.constantFrom("n:0", "n:1", "s:1", "s:", "s:__proto__"),
    });
    fc.assert(
      fc.property(fc.array(step, { maxLength: 60 }), (steps) => {
        const index = new KeyIndex<number>();
        const model = new Map<string, KeyNode<number>[]>();
        for (const [number, { type, space, key }] of steps.entries()) {
          const stack = model.get(`${space} ${key}`) ?? [];
          model.set(`${space} ${key}`, stack);
          if (type === "add") {
            const node = new KeyNode(space, key, number);
            index.add(node);
            stack.push(node);
          } else {
            const node = stack.shift();
            if (node !== undefined) index.delete(node);
          }
          expect(index.find(space, key)).toBe(stack.at(-1)?.item);
          expect(index.all(space, key)).toEqual(stack.toReversed());
        }
        expect(index.size).toBe([...model.values()].flat().length);
      }),
    );
  });

  it("finds everything after it has grown, the newest of equal keys first", () => {
    const index = new KeyIndex<number>();
    const nodes = Array.from({ length: 3000 }, (_, number) => new KeyNode(number % 7, `n:${number >> 1}`, number));
    for (const node of nodes) index.add(node);
    index.add(new KeyNode(0, "n:0", -1));
    expect(nodes.filter((node) => !index.all(node.space, node.key).includes(node))).toEqual([]);
    expect(index.find(0, "n:0")).toBe(-1);
    for (const node of nodes) index.delete(node);
    expect(index.size).toBe(1);
  });

  it("shrugs off the deletion of a node that is not in", () => {
    const index = new KeyIndex<number>();
    const node = new KeyNode(1, "n:1", 1);
    index.add(node);
    index.delete(node);
    index.delete(node);
    index.delete(new KeyNode(1, "n:1", 2));
    expect(index.size).toBe(0);
  });

  it("spreads counted ids over all buckets", () => {
    const buckets = new Set(Array.from({ length: 4096 }, (_, id) => hashKey(2, `n:${id}`) & 255));
    expect(buckets.size).toBe(256);
  });
});
