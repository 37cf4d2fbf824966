import fc from "fast-check";
import { describe, expect, it } from "vitest";

import { UnorderedList } from "./bounded-map.ts";

describe("an unordered list", () => {
  it("holds what was added and not deleted, whatever the order", () => {
    const steps = fc.array(fc.record({ add: fc.boolean(), item: fc.integer({ min: 0, max: 4 }) }));
    fc.assert(
      fc.property(steps, (taken) => {
        const items = Array.from({ length: 5 }, (_, name) => ({ name, listIndex: -1 }));
        const list = new UnorderedList<(typeof items)[number]>();
        const model = new Set<unknown>();
        for (const { add, item: index } of taken) {
          const item = items[index];
          if (item === undefined) continue;
          if (!add) {
            list.delete(item);
            model.delete(item);
          } else if (!model.has(item)) {
            list.add(item);
            model.add(item);
          }
          expect(new Set(list.items)).toEqual(model);
          expect(list.size).toBe(model.size);
        }
      }),
    );
  });
});
