import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { ByteBuffer } from "./line-framing.ts";

describe("a byte buffer", () => {
  it("gives back what was put in, in order, for small and large pieces alike", () => {
    const sizes = fc.array(fc.oneof(fc.integer({ min: 0, max: 8 }), fc.integer({ min: 1000, max: 3000 })), {
      maxLength: 20,
    });
    fc.assert(
      fc.property(sizes, fc.array(fc.boolean(), { minLength: 20, maxLength: 20 }), (lengths, looks) => {
        const hold = new ByteBuffer();
        const pieces = lengths.map((length, i) => Buffer.alloc(length, i + 1));
        for (const [i, piece] of pieces.entries()) {
          hold.append(Buffer.concat([Buffer.from("<"), piece, Buffer.from(">")]), 1, piece.length + 1);
          if (looks[i] === true) expect(hold.bytes().equals(Buffer.concat(pieces.slice(0, i + 1)))).toBe(true);
        }
        const all = Buffer.concat(pieces);
        expect(hold.size).toBe(all.length);
        expect(hold.take().equals(all)).toBe(true);
        expect(hold.size).toBe(0);
        expect(hold.take()).toHaveLength(0);
      }),
    );
  });

  it("does not write again into bytes that it gave away", () => {
    const hold = new ByteBuffer();
    hold.append(Buffer.from("first"), 0, 5);
    const given = hold.take();
    hold.append(Buffer.from("second"), 0, 6);
    expect(given.toString()).toBe("first");
    expect(hold.take().toString()).toBe("second");
  });

  it("forgets all when cleared", () => {
    const hold = new ByteBuffer();
    hold.append(Buffer.alloc(5000, 1), 0, 5000);
    hold.append(Buffer.from("x"), 0, 1);
    hold.clear();
    expect(hold.size).toBe(0);
    hold.append(Buffer.from("y"), 0, 1);
    expect(hold.bytes().toString()).toBe("y");
  });
});
