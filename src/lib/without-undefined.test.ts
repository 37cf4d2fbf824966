import { expect, it } from "vitest";

import { withoutUndefined } from "./without-undefined.ts";

it("leaves out members that are undefined, and only those", () => {
  const members = withoutUndefined({ a: 1, b: undefined, c: null, d: "", e: false });
  expect(members).toStrictEqual({ a: 1, c: null, d: "", e: false });
});
