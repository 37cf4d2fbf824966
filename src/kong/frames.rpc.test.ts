import { decode, encode } from "@msgpack/msgpack";
import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { LuaBinary, luaPack } from "../../test/support/fake-kong/lua-pack.ts";
import { formatReply, formatServerPid, isMap, parseCall } from "./frames.ts";

describe("the wire of Kong's plugin sockets", () => {
  it("reads a call as Kong writes it", () => {
    const bytes = Buffer.concat([
      Buffer.from([0x94, 0x00, 0x02, 0xb2]),
      Buffer.from("plugin.HandleEvent"),
      Buffer.from([0x91, 0x82, 0xa9]),
      Buffer.from("EventName"),
      Buffer.from([0xa6]),
      Buffer.from("access"),
      Buffer.from([0xaa]),
      Buffer.from("InstanceId"),
      Buffer.from([0x00]),
    ]);
    expect(parseCall(bytes)).toEqual({
      id: 2,
      method: "HandleEvent",
      argument: { EventName: "access", InstanceId: 0 },
    });
  });

  it("reads a step without data as undefined", () => {
    const call = parseCall(luaPack([0, 4, "plugin.Step", [{ EventId: 0, Data: undefined }]]));
    expect(call.argument).toEqual({ EventId: 0 });
  });

  it("reads names of every kind, because clients and upstreams choose those of headers", () => {
    const names = ["__proto__", "constructor", "toString", "hasOwnProperty", "0", "", "x-\u00E9"];
    const headers = Object.fromEntries(names.map((name) => [name, `value of ${name}`]));
    const { argument } = parseCall(luaPack([0, 4, "plugin.StepMultiMap", [{ EventId: 1, Data: headers }]]));
    const data = isMap(argument) ? argument["Data"] : undefined;
    expect(new Map(Object.entries(data ?? {}))).toEqual(new Map(Object.entries(headers)));
  });

  it("reads what Kong's library writes", () => {
    const value = fc.letrec<{ any: unknown }>((tie) => ({
      any: fc.oneof(
        { maxDepth: 3 },
        fc.constantFrom(null, true, false, -1, -128, 127, 128, 255, 256, 65_535, 65_536, 2 ** 32, 2 ** 53 - 1),
        fc.integer(),
        fc.double({ noNaN: true, noInteger: true }),
        fc.string({ unit: "grapheme", maxLength: 300 }),
        fc.array(tie("any"), { maxLength: 20 }),
        fc.dictionary(fc.string(), tie("any"), { minKeys: 1, maxKeys: 20 }),
      ),
    })).any;
    fc.assert(
      fc.property(value, (data) => {
        expect(parseCall(luaPack([0, 1, "m", [{ data }]])).argument).toEqual({ data: data ?? null });
      }),
    );
    const body = Buffer.from([0xff, 0, 0xc1]);
    expect(parseCall(luaPack([0, 1, "m", [new LuaBinary(body)]])).argument).toEqual(body);
  });

  it.each([
    ["a value that is cut off", Buffer.from([0x94, 0x00, 0x01, 0xa5, 0x61])],
    ["a type that Kong does not send", Buffer.from([0x94, 0x00, 0x01, 0xa1, 0x61, 0x91, 0xd4, 0x01, 0x01])],
    ["a value that nests too deep", Buffer.concat([Buffer.alloc(100_000, 0x91), Buffer.from([0xc0])])],
  ])("refuses %s", (_what, frame) => {
    expect(() => parseCall(frame)).toThrow(/cut off|does not send|deeper/u);
  });

  it("writes replies, errors as text, and the process id", () => {
    expect(decode(formatReply(3, { result: { EventId: 1, Data: "ret" } }))).toEqual([
      1,
      3,
      null,
      { EventId: 1, Data: "ret" },
    ]);
    expect(decode(formatReply(3, { error: "no plugin instance 5" }))).toEqual([1, 3, "no plugin instance 5", null]);
    expect(decode(formatServerPid(4711))).toEqual([2, "serverPid", 4711]);
  });

  it.each([
    ["no array", { a: 1 }],
    ["a reply", [1, 2, null, null]],
    ["no method", [0, 2, 3, []]],
  ])("refuses %s", (_name, message) => {
    expect(() => parseCall(encode(message))).toThrow("a call must be");
  });
});
