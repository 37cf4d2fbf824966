import fc from "fast-check";
import { describe, expect, it } from "vitest";

import { createEventMemory, type SessionEvents } from "./streamable-http.ts";

const note = (text: string) => ({ jsonrpc: "2.0", method: "notifications/message", params: { text } }) as const;

async function replay(events: SessionEvents, after: string): Promise<readonly unknown[]> {
  const sent: unknown[] = [];
  await events.replayEventsAfter(after, {
    send: async (_, message) => {
      sent.push(message);
    },
  });
  return sent;
}

describe("events kept for resuming", () => {
  it("are replayed in order, for their own stream only", async () => {
    const events = createEventMemory(() => ({ maxSessionBytes: 1000, maxTotalBytes: 1000 })).openSession();
    const first = await events.storeEvent("a", note("1"));
    await events.storeEvent("b", note("other"));
    await events.storeEvent("a", note("2"));
    await events.storeEvent("a", note("3"));
    expect(await replay(events, first)).toEqual([note("2"), note("3")]);
  });

  it("never exceed the limits, whatever is stored, and the newest of a session is kept if it fits", async () => {
    const step = fc.record({
      session: fc.nat(3),
      size: fc.nat(400),
      closes: fc.boolean(),
    });
    await fc.assert(
      fc.asyncProperty(fc.array(step, { maxLength: 80 }), async (steps) => {
        const memory = createEventMemory(() => ({ maxSessionBytes: 600, maxTotalBytes: 1000 }));
        const sessions = [0, 1, 2, 3].map(() => memory.openSession());
        for (const { session, size, closes } of steps) {
          const events = sessions[session];
          if (events === undefined) continue;
          if (closes) {
            events.clear();
            sessions[session] = memory.openSession();
            continue;
          }
          const id = await events.storeEvent("s", note("x".repeat(size)));
          expect(memory.bytes).toBeLessThanOrEqual(1000);
          expect(await events.getStreamIdForEventId?.(id)).toBe("s");
        }
        for (const events of sessions) events.clear();
        expect(memory.bytes).toBe(0);
      }),
    );
  });

  it("refuse to resume after an event that is gone", async () => {
    const events = createEventMemory(() => ({ maxSessionBytes: 150, maxTotalBytes: 150 })).openSession();
    const first = await events.storeEvent("a", note("x".repeat(50)));
    await events.storeEvent("a", note("y".repeat(50)));
    await expect(replay(events, first)).rejects.toThrow("no longer kept");
  });
});
