import { describe, expect, it } from "vitest";

import { anonymous } from "../core/exchange.ts";
import { Session } from "./session.ts";
import { SessionSlot } from "./session-slot.ts";

describe("a slot of sessions", () => {
  it("keeps one value for each session, apart from other slots", () => {
    const [numbers, texts] = [new SessionSlot<number>(), new SessionSlot<string>()];
    const [one, other] = ["1", "2"].map((id) => new Session(id, "files", anonymous, 0, 1000));
    if (one === undefined || other === undefined) throw new TypeError("there are two sessions");
    texts.set(one, "a");
    numbers.set(other, 2);
    texts.set(one, "b");
    expect([numbers.get(one), texts.get(one)]).toEqual([undefined, "b"]);
    expect([numbers.get(other), texts.get(other)]).toEqual([2, undefined]);
  });
});
