import { describe, expect, it } from "vitest";
import { createEventStore, streamOfEventId } from "./event-store.ts";

function store(limits: Partial<Parameters<typeof createEventStore>[0]> = {}) {
  let streams = 0;
  return createEventStore(
    { streamBytes: 1000, principalBytes: 10_000, totalBytes: 100_000, ...limits },
    () => `s${streams++}`,
  );
}

const block = (size: number, fill = "x"): Buffer => Buffer.from(fill.repeat(size));

describe("event store", () => {
  it("gives back exactly what was sent after an event", () => {
    const stream = store().open("alice");
    const ids = ["a", "b", "c"].map((text) => {
      const id = stream.nextEventId();
      stream.append(Buffer.from(text));
      return id;
    });
    expect(stream.after(ids[0] ?? "")?.map(String)).toEqual(["b", "c"]);
    expect(stream.after(ids[2] ?? "")).toEqual([]);
    expect(stream.after(`${stream.id}-0`)?.map(String)).toEqual(["a", "b", "c"]);
  });

  it("[SC-038] keeps replay on the stream that an id belongs to", () => {
    const events = store();
    const one = events.open("alice");
    const two = events.open("alice");
    const id = one.nextEventId();
    one.append(block(1));
    two.append(block(1));
    expect(two.after(id)).toBeUndefined();
    expect(streamOfEventId(id)).toBe(one.id);
    expect(streamOfEventId("none")).toBeUndefined();
  });

  it("says that it does not know what it has dropped, or what was never sent", () => {
    const stream = store({ streamBytes: 10 }).open("alice");
    const ids = [1, 2, 3].map(() => {
      const id = stream.nextEventId();
      stream.append(block(5));
      return id;
    });
    // The first event is gone: whoever has it still gets the rest, whoever does not has missed something.
    expect(stream.after(ids[0] ?? "")).toHaveLength(2);
    expect(stream.after(`${stream.id}-0`)).toBeUndefined();
    for (const odd of [`${stream.id}-99`, `${stream.id}-x`, `${stream.id}--1`, "", "other-1"]) {
      expect([odd, stream.after(odd)]).toEqual([odd, undefined]);
    }
  });

  it("is bounded per principal: one who sends much loses its own oldest events, not another's", () => {
    const events = store({ principalBytes: 20 });
    const quiet = events.open("bob");
    quiet.append(block(15));
    const oldest = events.open("alice");
    oldest.append(block(15));
    events.open("alice").append(block(15));
    expect(oldest.after(`${oldest.id}-0`)).toBeUndefined();
    expect(quiet.after(`${quiet.id}-0`)).toHaveLength(1);
    expect(events.bytes).toBe(30);
  });

  it("is bounded in all, and forgets dropped streams entirely", () => {
    const events = store({ totalBytes: 25 });
    const first = events.open("alice");
    first.append(block(10));
    events.open("bob").append(block(10));
    events.open("carol").append(block(10));
    expect(first.after(`${first.id}-0`)).toBeUndefined();
    expect(events.bytes).toBe(20);
    const last = events.open("dave");
    last.append(block(1));
    last.delete();
    expect(events.bytes).toBe(20);
  });

  it("keeps nothing where the bound is nothing", () => {
    const events = store({ streamBytes: 0 });
    const stream = events.open("alice");
    stream.append(block(1));
    expect([events.bytes, stream.after(`${stream.id}-0`)]).toEqual([0, undefined]);
  });
});
