import { describe, expect, it } from "vitest";

import { createOutcomeCache } from "./dimension-cache.ts";
import { exchangeFields, fieldsIn, type ExchangeOutcome } from "./exchange-fields.ts";

const plain: ExchangeOutcome = {
  kind: "request",
  direction: "c2s",
  method: "tools/call",
  state: "ok",
  messages: 4,
  modified: false,
  redacted: 0,
  omitted: 0,
};

const otherValues = { text: "other", integer: 7, boolean: true } as const;

describe("the outcome cache", () => {
  it("finds an equal outcome", () => {
    const cache = createOutcomeCache<number>();
    cache.set(plain, 1);
    expect(cache.get({ ...plain })).toBe(1);
    cache.clear();
    expect(cache.get(plain)).toBeUndefined();
  });

  it("keeps an outcome as it was, though its exchange goes on", () => {
    const cache = createOutcomeCache<number>();
    const changing = { ...plain, state: "open" as ExchangeOutcome["state"] };
    cache.set(changing, 1);
    changing.state = "ok";
    expect([cache.get({ ...plain, state: "open" }), cache.get(plain)]).toEqual([1, undefined]);
  });

  it.each(fieldsIn("outcome"))("keeps outcomes apart that differ in %s", (field) => {
    const cache = createOutcomeCache<number>();
    const value = field === "state" ? "error" : otherValues[exchangeFields[field].type];
    // One field of the type that the table says.
    const other = { ...plain, [field]: value } as ExchangeOutcome;
    cache.set(plain, 1);
    expect(cache.get(other)).toBeUndefined();
    cache.set(other, 2);
    expect([cache.get(plain), cache.get(other)]).toEqual([1, 2]);
  });
});
