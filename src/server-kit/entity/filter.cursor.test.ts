import fc from "fast-check";
import { describe, expect, it } from "vitest";

import { createCursors } from "./filter.ts";

const scope = { entity: "Site", sort: ["-name", "id"], filter: { name: "x" } };
const position = fc.array(
  fc.oneof(fc.string(), fc.double({ noNaN: true, noDefaultInfinity: true }), fc.boolean(), fc.constant(null)),
);

describe("cursors", () => {
  const cursors = createCursors("secret");

  it("[KO-014] give back the position they were made of", () => {
    fc.assert(
      fc.property(position, (values) => {
        // JSON has one zero.
        const expected = values.map((value) => (Object.is(value, -0) ? 0 : value));
        expect(cursors.read(scope, cursors.write(scope, values))).toEqual(expected);
      }),
    );
  });

  it("[KO-014] are refused when one letter of them is another", () => {
    const cursor = cursors.write(scope, ["name", "7"]);
    fc.assert(
      fc.property(fc.nat({ max: cursor.length - 1 }), fc.constantFrom("A", "b", "9", "."), (at, letter) => {
        const changed = cursor.slice(0, at) + letter + cursor.slice(at + 1);
        // The last letter of base64 has bits that say nothing.
        fc.pre(changed !== cursor && at !== cursor.length - 1);
        expect(cursors.read(scope, changed)).toBeUndefined();
      }),
    );
  });

  it("[KO-014] are refused for another list and under another secret", () => {
    const cursor = cursors.write(scope, ["a"]);
    expect(cursors.read({ ...scope, entity: "Visit" }, cursor)).toBeUndefined();
    expect(cursors.read({ ...scope, sort: ["id"] }, cursor)).toBeUndefined();
    expect(cursors.read({ ...scope, filter: undefined }, cursor)).toBeUndefined();
    expect(createCursors("other").read(scope, cursor)).toBeUndefined();
    expect(cursors.read(scope, "nonsense")).toBeUndefined();
  });
});
