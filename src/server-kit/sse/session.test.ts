import fc from "fast-check";
import { createParser, type EventSourceMessage } from "eventsource-parser";
import { describe, expect, it } from "vitest";

import { endpointEvent, jsonEvent } from "./session.ts";

const text = (bytes: Uint8Array): string => new TextDecoder().decode(bytes);

function eventsOf(bytes: Uint8Array): EventSourceMessage[] {
  const events: EventSourceMessage[] = [];
  createParser({ onEvent: (event) => events.push(event) }).feed(text(bytes));
  return events;
}

describe("events of a stream", () => {
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
});
