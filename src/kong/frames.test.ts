import { encode } from "@msgpack/msgpack";
import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { luaPack } from "../../test/support/fake-kong/lua-pack.ts";
import { createFrameReader } from "./frames.ts";

const value = fc.letrec<{ any: unknown }>((tie) => ({
  any: fc.oneof(
    { maxDepth: 3 },
    fc.constant(null),
    fc.boolean(),
    fc.integer(),
    fc.double({ noNaN: true }),
    fc.bigInt(-(2n ** 53n), 2n ** 53n).map(Number),
    fc.string({ maxLength: 300 }),
    fc.uint8Array({ maxLength: 300 }),
    fc.array(tie("any"), { maxLength: 20 }),
    fc.dictionary(fc.string(), tie("any"), { maxKeys: 20 }),
  ),
})).any;

/** The bytes cut at some places. */
function cut(bytes: Uint8Array, sizes: readonly number[]): Uint8Array[] {
  const chunks: Uint8Array[] = [];
  let at = 0;
  for (let index = 0; at < bytes.length; index++) {
    const size = sizes[index % sizes.length] ?? 1;
    chunks.push(bytes.subarray(at, at + size));
    at += size;
  }
  return chunks;
}

describe("the frame reader", () => {
  it("finds the same values however the stream is split", () => {
    fc.assert(
      fc.property(
        fc.array(value, { minLength: 1, maxLength: 5 }),
        fc.array(fc.integer({ min: 1, max: 50 }), { minLength: 1 }),
        (values, sizes) => {
          const frames = values.map((each) => Buffer.from(encode(each)));
          const reader = createFrameReader();
          const found = cut(Buffer.concat(frames), sizes).flatMap((chunk) =>
            reader.push(chunk).map((frame) => Buffer.from(frame)),
          );
          expect(found).toEqual(frames);
        },
      ),
    );
  });

  it("finds frames as Kong's library writes them, also long ones", () => {
    const frames = [
      luaPack([0, 1, "plugin.Step", [{ EventId: 7, Data: "x".repeat(70_000) }]]),
      luaPack([0, 2, "plugin.StepMultiMap", [{ EventId: 7, Data: { host: ["a".repeat(200)] } }]]),
      luaPack(Array.from({ length: 70_000 }, () => 1)),
    ];
    const reader = createFrameReader();
    const found = cut(Buffer.concat(frames), [4096]).flatMap((chunk) =>
      reader.push(chunk).map((frame) => frame.length),
    );
    expect(found).toEqual(frames.map((frame) => frame.length));
  });

  it("does not copy a frame that came in one piece", () => {
    const chunk = Buffer.from(encode([1, "two"]));
    const [frame] = createFrameReader().push(chunk);
    expect(frame?.buffer).toBe(chunk.buffer);
  });

  it("joins a body of many chunks", () => {
    const body = encode(new Uint8Array(8 * 1024 * 1024).fill(7));
    const reader = createFrameReader();
    const found = cut(body, [64 * 1024]).flatMap((chunk) => reader.push(chunk));
    expect(found.map((frame) => Buffer.compare(frame, body))).toEqual([0]);
  });

  it("refuses a byte that starts no value", () => {
    expect(() => createFrameReader().push(Uint8Array.of(0xc1))).toThrow("0xc1");
  });
});
