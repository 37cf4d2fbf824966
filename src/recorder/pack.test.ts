import fc from "fast-check";
import { describe, expect, it } from "vitest";

import { arbitraryFrames, callFrames, endFrame } from "../../test/support/recording.ts";
import type { ExchangeRecord, Frame } from "./contract.ts";
import { deriveExchanges } from "./derive.ts";
import { type FramePack, groupFrames, maxPackSpan, packFrames, rareFields, readPackIds, unpackFrames } from "./pack.ts";
import { createContextReader } from "./pack-context.ts";
import { createPackBufferWriter, packCount, readPackBuffer } from "./exchange-batcher.ts";
import { fieldsIn } from "./exchange-fields.ts";

const outcomeFields = fieldsIn("outcome");

/** Frames that were packed and unpacked. */
function again(frames: readonly Frame[]): readonly Frame[] {
  const readContext = createContextReader();
  const writer = createPackBufferWriter();
  // Packs may be added in any order.
  const groups = groupFrames(frames);
  for (const group of groups.toReversed()) writer.add(group);
  const taken = writer.take();
  expect(packCount(taken)).toBe(groups.length);
  expect(packCount(writer.take())).toBe(0);
  const packs = readPackBuffer(taken);
  const plain = ({ content, complete: _complete, ...pack }: FramePack) => ({
    ...pack,
    content: Buffer.from(content).toString("base64"),
  });
  const packed = packFrames(frames);
  expect(packs.map(plain)).toEqual(packed.map(plain));
  for (const [index, { complete }] of packs.entries()) {
    const other = packed[index]?.complete;
    expect(complete === undefined).toBe(other === undefined);
    if (complete === undefined || other === undefined) continue;
    const { outcome, ...figures } = complete;
    expect(other).toMatchObject(figures);
    for (const name of outcomeFields) expect(outcome[name]).toEqual(other.outcome[name]);
  }
  return packs.flatMap((pack) => unpackFrames(pack, "c1", readContext)).toSorted((one, other) => one.seq - other.seq);
}

const oddities = fc.record(
  {
    at: fc.double({ noNaN: true, noDefaultInfinity: true }),
    mono: fc.double({ noNaN: true, noDefaultInfinity: true, min: 0, max: 1e12 }),
    body: fc.string({ unit: "binary" }),
    omitted: fc.constantFrom("size", "queue"),
    redacted: fc.nat(9),
    errorCode: fc.integer(),
    gatewayCode: fc.string(),
    operation: fc.string(),
    lost: fc.nat(),
  },
  { requiredKeys: [] },
);

describe("the buffer of packs", () => {
  it("holds any number of packs, and none of before when it is used again", () => {
    const writer = createPackBufferWriter();
    let seq = 0;
    for (const count of [1, 2047, 2048, 2049, 10_000, 3]) {
      const firsts: number[] = [];
      for (let index = 0; index < count; index++) {
        const frames = callFrames({ id: `e${seq}`, seq });
        firsts.push(seq);
        seq += frames.length;
        writer.add(frames);
      }
      const taken = writer.take();
      expect(readPackBuffer(taken).map(({ first }) => first)).toEqual(firsts);
      writer.recycle(taken);
    }
  });
});

describe("packed frames", () => {
  it("[SC-067] are unpacked as they were, whatever is in them", () => {
    fc.assert(
      fc.property(arbitraryFrames, fc.array(oddities, { maxLength: 20 }), (frames, odd) => {
        const all = frames.map((frame, index): Frame => ({ ...frame, ...odd[index] }));
        expect(again(all)).toEqual(all);
      }),
    );
  });

  it.each(rareFields)("keep a frame whose only rare field is %s", (field) => {
    const [frame] = callFrames({ id: "a" });
    if (frame === undefined) throw new TypeError("a call has frames");
    // A value of no frame, since only its presence matters here.
    const rare = { ...frame, [field]: 1 } as Frame;
    expect(again([rare])).toEqual([rare]);
  });

  it("[SC-067] carry the derived exchange if they are all of it", () => {
    fc.assert(
      fc.property(arbitraryFrames, (frames) => {
        const derived = new Map(deriveExchanges(frames).map((exchange) => [exchange.seq, exchange]));
        for (const { first, complete, content } of packFrames(frames)) {
          if (complete === undefined) continue;
          const { outcome, ...figures } = complete;
          const exchange = derived.get(first);
          expect({ ...exchange }).toMatchObject(figures);
          expect(readPackIds(content)).toEqual({ exchange: exchange?.id, id: exchange?.rpcId });
          for (const name of outcomeFields) expect(outcome[name]).toEqual(exchange?.[name]);
        }
        const completes = packFrames(frames).filter(({ complete }) => complete !== undefined);
        const isOver = ({ state }: ExchangeRecord) => state !== "open" && state !== "abandoned";
        expect(completes).toHaveLength([...derived.values()].filter(isOver).length);
      }),
    );
  });

  it("are grouped by exchange, in the order of first frames", () => {
    const [one, other] = [callFrames({ id: "a", answer: "x" }), callFrames({ id: "b", seq: 4, answer: "y" })];
    const woven = [...one.slice(0, 2), ...other, ...one.slice(2)].map((frame, seq) => ({ ...frame, seq }));
    const packs = packFrames(woven);
    expect(packs.map(({ first, last, count }) => [first, last, count])).toEqual([
      [0, 7, 4],
      [2, 5, 4],
    ]);
    expect(Buffer.from(packs[0]?.content ?? []).includes(one[2]?.body ?? "?")).toBe(true);
  });

  it("span neither too many numbers nor the end of a capture", () => {
    const [first, second, ...rest] = callFrames({ id: "a", answer: "x" });
    if (first === undefined || second === undefined) throw new TypeError("a call has more frames");
    const far = { ...second, seq: maxPackSpan };
    expect(packFrames([first, far]).map(({ count }) => count)).toEqual([1, 1]);
    const late = rest.map((frame) => ({ ...frame, seq: frame.seq + 10 }));
    const packs = packFrames([first, second, endFrame(5), ...late]);
    expect(packs.map(({ count }) => count)).toEqual([2, 1, 2]);
    expect(again([first, far, endFrame(maxPackSpan + 1)])).toEqual([first, far, endFrame(maxPackSpan + 1)]);
  });

  it("keep the context of an exchange, and write equal ones once", () => {
    const [frame] = callFrames({ id: "a", parent: "p", session: "s" });
    if (frame?.context === undefined) throw new TypeError("the first frame has a context");
    const http = { method: "POST", path: "/mcp", headers: { accept: "*/*" } };
    const context = { ...frame.context, traceId: "t", http };
    expect(again([{ ...frame, context }])).toEqual([{ ...frame, context }]);
    const writer = createPackBufferWriter();
    for (const seq of [0, 1]) writer.add([{ ...frame, seq, context }]);
    expect(writer.take().contexts).toHaveLength(1);
  });
});
