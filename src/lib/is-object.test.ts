import { expect, it } from "vitest";

import { isObject } from "./is-object.ts";

it("accepts objects, but neither null nor arrays nor other types", () => {
  expect([{}, { a: 1 }].filter((value) => isObject(value))).toHaveLength(2);
  expect([null, undefined, [], 1, "{}", true, () => {}].filter((value) => isObject(value))).toEqual([]);
});
