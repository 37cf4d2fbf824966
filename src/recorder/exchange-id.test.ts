import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { encodeLabel } from "../protocol/ids/label.ts";
import { idSortKey, parseShortId, toShortId } from "./exchange-id.ts";

const label = (counter: number, session = "s-1", key = "s:a-b-c" as const): string =>
  encodeLabel({ session, node: "0a1b2c3d", subject: { kind: "id", key }, counter });

describe("ids of exchanges", () => {
  it("rise with time in the index, whatever session and JSON-RPC id a label has", () => {
    fc.assert(
      fc.property(fc.integer({ min: 1, max: 2 ** 53 - 2 }), fc.string(), fc.string(), (counter, session, id) => {
        const subject = { kind: "id", key: `s:${id}` } as const;
        const one = encodeLabel({ session, node: "0a1b2c3d", subject, counter });
        const caused = encodeLabel({ session, node: "0a1b2c3d", subject, counter, caused: counter });
        const keys = [one, caused, label(counter + 1)].map(idSortKey);
        expect(keys.toSorted()).toEqual(keys);
        expect(new Set(keys).size).toBe(keys.length);
      }),
    );
  });

  it("have a short form that can be read again", () => {
    expect(toShortId(label(12))).toBe("0a1b-12");
    expect(parseShortId("0a1b-12")).toEqual({ node: "0a1b", counter: "12" });
    expect(parseShortId("0a1b2c3d-12")).toEqual({ node: "0a1b2c3d", counter: "12" });
    expect(toShortId(`${label(12)}.3`)).toBe("0a1b-12.3");
    expect(parseShortId("0a1b-12.3")).toEqual({ node: "0a1b", counter: "12.3" });
  });

  it.each(["795ebbd4-y", "e1", "", "a-b", "0a1b-0", "0a1b-1.", "-12"])(
    "of other programs stay as they are: %j",
    (id) => {
      expect([idSortKey(id), toShortId(id), parseShortId(id)]).toEqual([id, id, undefined]);
    },
  );
});
