import fc from "fast-check";
import { createParser, type EventSourceMessage } from "eventsource-parser";
import { describe, expect, it } from "vitest";

import { createMessageEncoder, endpointEvent, jsonEvent } from "./sse-transport.ts";

const text = (bytes: Uint8Array): string => new TextDecoder().decode(bytes);

function eventsOf(bytes: Uint8Array): EventSourceMessage[] {
  const events: EventSourceMessage[] = [];
  createParser({ onEvent: (event) => events.push(event) }).feed(text(bytes));
  return events;
}

describe("frames", () => {
  it("[KO-059] are an event line, one data line of JSON and an empty line, without an id", () => {
    expect(text(jsonEvent("ack", { id: 1 }))).toBe('event: ack\ndata: {"id":1}\n\n');
  });

  it("[KO-059] have a plain URI as data for endpoint only", () => {
    expect(text(endpointEvent("/mcp/rpc?sessionId=a"))).toBe("event: endpoint\ndata: /mcp/rpc?sessionId=a\n\n");
  });

  it("[KO-059] carry any JSON value to a reader as one event", () => {
    fc.assert(
      fc.property(fc.jsonValue(), (value) => {
        const [event, ...others] = eventsOf(jsonEvent("result", { value }));
        expect(others).toEqual([]);
        expect(event?.event).toBe("result");
        expect(event?.id).toBeUndefined();
        expect(JSON.parse(event?.data ?? "")).toEqual(JSON.parse(JSON.stringify({ value })));
      }),
    );
  });

  it("[KO-028] of tool lists say the same as any other, whatever else is in them", () => {
    const frame = createMessageEncoder();
    const tool = fc.record({ name: fc.string(), inputSchema: fc.object() });
    const result = fc.record(
      { tools: fc.array(tool), nextCursor: fc.string(), _meta: fc.object() },
      { requiredKeys: ["tools"] },
    );
    fc.assert(
      fc.property(result, fc.oneof(fc.string(), fc.integer()), (given, id) => {
        const message = { result: given, jsonrpc: "2.0", id };
        for (let round = 0; round < 2; round += 1) {
          const [event] = eventsOf(frame("result", message));
          expect(JSON.parse(event?.data ?? "")).toEqual(JSON.parse(JSON.stringify(message)));
        }
      }),
    );
  });

  it("[KO-028] of tool lists write each definition once", () => {
    const frame = createMessageEncoder();
    let written = 0;
    const tool = {
      toJSON: () => {
        written += 1;
        return { name: "a" };
      },
    };
    const message = { jsonrpc: "2.0", id: 1, result: { tools: [tool, tool] } };
    for (let round = 0; round < 3; round += 1) frame("result", message);
    expect(written).toBe(1);
    expect(text(frame("message", message))).toBe(
      'event: message\ndata: {"jsonrpc":"2.0","id":1,"result":{"tools":[{"name":"a"},{"name":"a"}]}}\n\n',
    );
  });

  it("of results whose tools are no list of objects are like any other", () => {
    const frame = createMessageEncoder();
    for (const tools of [1, "x", [1], [null], null]) {
      const message = { jsonrpc: "2.0", id: 1, result: { tools } };
      expect(frame("result", message)).toEqual(jsonEvent("result", message));
    }
  });
});
