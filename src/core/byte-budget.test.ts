import fc from "fast-check";
import { describe, expect, it } from "vitest";

import { ByteBudget, countedFrom } from "./byte-budget.ts";

const kilo = 1024;

describe("the bytes of a caller", () => {
  it("are refused over its own limit before they cost others, and free again once released", () => {
    const budget = new ByteBudget({ total: 200 * kilo, perPrincipal: 100 * kilo });
    const first = budget.hold("ann");
    expect(first.resize(60 * kilo)).toBeUndefined();
    expect(budget.hold("ann").resize(60 * kilo)).toMatchObject({
      code: "rate_limited",
      details: { limit: { actual: 120 * kilo, allowed: 100 * kilo }, retryAfter: 1 },
    });
    expect(budget.problem("ann", 60 * kilo)).toMatchObject({ code: "rate_limited" });
    expect(budget.problem("bob", 60 * kilo)).toBeUndefined();
    first.release();
    first.release();
    expect(budget.problem("ann", 60 * kilo)).toBeUndefined();
    expect(budget.size).toBe(0);
  });

  it("of all together are refused over the total", () => {
    const budget = new ByteBudget({ total: 150 * kilo, perPrincipal: 100 * kilo });
    expect(budget.hold("ann").resize(90 * kilo)).toBeUndefined();
    expect(budget.hold("bob").resize(90 * kilo)).toMatchObject({ code: "overloaded", details: { retryAfter: 1 } });
    expect(budget.hold("bob").resize(60 * kilo)).toBeUndefined();
  });

  it("that can never fit are not worth a retry", () => {
    const budget = new ByteBudget({ total: 200 * kilo, perPrincipal: 100 * kilo });
    const body = budget.hold("ann");
    expect(body.resize(90 * kilo)).toBeUndefined();
    // It grows, as a body does.
    expect(body.resize(101 * kilo)).toMatchObject({ code: "too_large", facts: { http: 413, retryable: false } });
    expect(budget.size).toBe(90 * kilo);
  });

  it("of small messages do not count", () => {
    const budget = new ByteBudget({ total: 1, perPrincipal: 1 });
    expect(budget.hold("ann").resize(countedFrom - 1)).toBeUndefined();
    expect(budget.problem("ann", countedFrom - 1)).toBeUndefined();
    expect(budget.problem("ann", countedFrom)).toMatchObject({ code: "too_large" });
  });

  it("never exceed a limit, are never lost, and are never refused to a caller because of another's", () => {
    const limits = { total: 400 * kilo, perPrincipal: 200 * kilo };
    const change = fc.record({
      who: fc.constantFrom("ann", "bob"),
      which: fc.nat(5),
      bytes: fc.nat(250 * kilo),
    });
    fc.assert(
      fc.property(fc.array(change, { maxLength: 60 }), (changes) => {
        const budget = new ByteBudget(limits);
        const held = new Map<string, { bytes: number; hold: ReturnType<ByteBudget["hold"]> }>();
        const sumOf = (who: string): number =>
          [...held].reduce((sum, [name, { bytes }]) => (name.startsWith(who) ? sum + bytes : sum), 0);
        for (const { who, which, bytes } of changes) {
          const name = `${who} ${which}`;
          const one = held.get(name) ?? { bytes: 0, hold: budget.hold(who) };
          held.set(name, one);
          const counted = bytes < countedFrom ? 0 : bytes;
          const refusal = one.hold.resize(bytes);
          const fits = counted <= one.bytes || sumOf(who) - one.bytes + counted <= limits.perPrincipal;
          expect(refusal === undefined).toBe(fits);
          if (refusal === undefined) one.bytes = counted;
          expect(budget.size).toBe(sumOf("ann") + sumOf("bob"));
        }
        for (const { hold } of held.values()) hold.release();
        expect(budget.size).toBe(0);
      }),
    );
  });
});
