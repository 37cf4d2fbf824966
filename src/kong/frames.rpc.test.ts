import { decode, encode } from "@msgpack/msgpack";
import { describe, expect, it } from "vitest";
import { luaPack } from "../../test/support/fake-kong/lua-pack.ts";
import { formatReply, formatServerPid, parseCall } from "./frames.ts";

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
