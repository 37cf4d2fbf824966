import { describe, expect, it } from "vitest";
import { ByteBudget } from "../core/byte-budget.ts";
import { createEventStore } from "./event-store.ts";

function store(limits: Partial<Parameters<typeof createEventStore>[0]> = {}) {
  return createEventStore({ streamBytes: 1000, principalBytes: 10_000, totalBytes: 100_000, ...limits });
}

const block = (size: number, fill = "x"): Buffer => Buffer.from(fill.repeat(size));

describe("event store", () => {
  it("gives back exactly what was sent after an event", () => {
    const stream = store().open("alice");
    for (const text of ["a", "b", "c"]) stream.append(text, Buffer.from(text));
    expect(stream.after("a")?.map(String)).toEqual(["b", "c"]);
    expect(stream.after("c")).toEqual([]);
    expect(stream.from("b").map(String)).toEqual(["b", "c"]);
  });

  it("[SC-038] keeps replay on the stream that an id belongs to", () => {
    const events = store();
    const one = events.open("alice");
    const two = events.open("alice");
    one.append("1", block(1));
    two.append("2", block(1));
    expect(two.after("1")).toBeUndefined();
    expect([one.has("1"), two.has("1"), one.has("none")]).toEqual([true, false, false]);
  });

  it("says that it does not know what it has dropped, or what was never sent", () => {
    const stream = store({ streamBytes: 10 }).open("alice");
    for (const id of ["1", "2", "3", "4"]) stream.append(id, block(5));
    // The second event is gone: a reader who has it still gets the rest, one who only has the first has missed it.
    expect(stream.after("2")).toHaveLength(2);
    expect(stream.after("1")).toBeUndefined();
    expect(stream.has("1")).toBe(true);
    for (const odd of ["99", "x", "-1", ""])
      expect([odd, stream.after(odd), stream.has(odd)]).toEqual([odd, undefined, false]);
  });

  it("remembers a bounded number of dropped events", () => {
    const stream = store({ streamBytes: 0 }).open("alice");
    for (let number = 0; number < 5000; number++) stream.append(String(number), block(1));
    expect([stream.has("0"), stream.has("4999")]).toEqual([false, true]);
  });

  it("is bounded per principal: one who sends much loses its own oldest events, not another's", () => {
    const events = store({ principalBytes: 20 });
    const quiet = events.open("bob");
    quiet.append("b", block(15));
    const oldest = events.open("alice");
    oldest.append("a", block(15));
    events.open("alice").append("c", block(15));
    expect(oldest.from("a")).toEqual([]);
    expect(quiet.from("b")).toHaveLength(1);
    expect(events.bytes).toBe(30);
  });

  it("is bounded in all, and forgets dropped streams entirely", () => {
    const events = store({ totalBytes: 25 });
    const first = events.open("alice");
    first.append("a", block(10));
    events.open("bob").append("b", block(10));
    events.open("carol").append("c", block(10));
    expect(first.from("a")).toEqual([]);
    expect(events.bytes).toBe(20);
    const last = events.open("dave");
    last.append("d", block(1));
    last.delete();
    expect(events.bytes).toBe(20);
  });

  it("gives way to messages of the same principal, and to nobody else's", () => {
    const budget = new ByteBudget({ total: 1e6, perPrincipal: 100_000 });
    const events = createEventStore({ streamBytes: 1e6, principalBytes: 1e6, totalBytes: 1e6 }, budget);
    const one = events.open("alice");
    const other = events.open("bob");
    for (const id of ["1", "2", "3"]) {
      one.append(id, block(20_000));
      other.append(id, block(20_000));
    }
    const body = budget.hold("alice");
    expect(body.resize(40_000)).toBeUndefined();
    one.append("4", block(20_000));
    expect([one.has("1"), one.after("1")?.length, one.after("2")?.length]).toEqual([true, 3, 2]);
    expect(other.after("1")).toHaveLength(2);
    expect(budget.size).toBe(40_000 + events.bytes);
    one.delete();
    other.delete();
    body.release();
    expect([budget.size, events.bytes]).toEqual([0, 0]);
  });

  it("keeps nothing where the bound is nothing", () => {
    const events = store({ streamBytes: 0 });
    const stream = events.open("alice");
    stream.append("a", block(1));
    expect([events.bytes, stream.from("a")]).toEqual([0, []]);
  });
});
