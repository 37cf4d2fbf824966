import { describe, expect, it } from "vitest";
import { messageFrom, textOf } from "../../../test/support/exchange.ts";
import { spanOf } from "../../protocol/json/outline.ts";
import { CompactRequest } from "./compact-request.ts";

const text = '{"jsonrpc":"2.0","id":"é","method":"tools/call","params":{"name":"né\\u0000€"}}';

function compactOf(source: string): CompactRequest {
  const message = messageFrom(source);
  if (message.kind !== "request") throw new Error("not a request");
  return CompactRequest.from(message);
}

describe("a compact request", () => {
  it("keeps its bytes and members when it was compacted, once or twice", () => {
    const request = compactOf(` ${text}\n`);
    for (let round = 0; round < 2; round++) {
      request.compact();
      request.compact();
      expect(textOf(request)).toBe(text);
      expect(spanOf(request.outline, "params.name")).toBeDefined();
    }
    expect([request.kind, request.method, request.id.json]).toEqual(["request", "tools/call", '"é"']);
  });

  it("is not wrapped twice, and does not touch the message it was made from", () => {
    const message = messageFrom(text);
    if (message.kind !== "request") throw new Error("not a request");
    const { bytes, outline } = message;
    const request = CompactRequest.from(message);
    request.compact();
    expect(CompactRequest.from(request)).toBe(request);
    expect([message.bytes === bytes, message.outline === outline]).toEqual([true, true]);
  });
});
