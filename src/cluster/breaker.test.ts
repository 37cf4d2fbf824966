import { describe, expect, it } from "vitest";

import { createStoreBreaker } from "./breaker.ts";

function bench() {
  let now = 0;
  const changes: boolean[] = [];
  const breaker = createStoreBreaker({ now: () => now, onChange: (isUp) => changes.push(isUp) });
  const isOpen = (): boolean => {
    try {
      breaker.check();
      return false;
    } catch {
      return true;
    }
  };
  return { breaker, changes, isOpen, advance: (ms: number) => (now += ms) };
}

describe("the breaker", () => {
  it("opens for a second after three failures in a row, and again after each further one", () => {
    const { breaker, isOpen, advance } = bench();
    breaker.failed("a");
    breaker.failed("b");
    expect(isOpen()).toBe(false);
    breaker.failed("c");
    expect(isOpen()).toBe(true);
    advance(1000);
    expect(isOpen()).toBe(false);
    breaker.failed("d");
    expect(isOpen()).toBe(true);
  });

  it("closes with the first success", () => {
    const { breaker, isOpen, advance } = bench();
    for (let count = 0; count < 5; count++) breaker.failed("away");
    advance(1000);
    breaker.succeeded();
    breaker.failed("away");
    expect(isOpen()).toBe(false);
  });

  it("says each change once, and that the store is back when the lease was renewed", () => {
    const { breaker, changes } = bench();
    breaker.failed("read-only");
    breaker.succeeded();
    breaker.failed("read-only");
    expect(changes).toEqual([false]);
    breaker.renewed();
    breaker.renewed();
    breaker.failed("away");
    expect(changes).toEqual([false, true, false]);
  });

  it("says again that the store is away when there is something else to do about it, once in each outage", () => {
    const { breaker, changes } = bench();
    breaker.failed("connection lost");
    breaker.failed("no password", "set it");
    breaker.failed("no password again", "set it");
    breaker.failed("connection lost");
    expect(changes).toEqual([false, false]);
    breaker.renewed();
    breaker.failed("no password", "set it");
    expect(changes).toEqual([false, false, true, false]);
  });
});
