import { describe, expect, it } from "vitest";

import { settled } from "../../test/support/fake-time.ts";
import { createSerialQueue } from "./channel-link.ts";

describe("turns", () => {
  it("do work at once while nothing is going on", () => {
    const done: number[] = [];
    const inTurn = createSerialQueue(() => {});
    for (const number of [1, 2, 3]) inTurn(() => void done.push(number));
    expect(done).toEqual([1, 2, 3]);
  });

  it("keep what comes behind slow work waiting, in order", async () => {
    const done: number[] = [];
    const gate = Promise.withResolvers<void>();
    const inTurn = createSerialQueue(() => {});
    inTurn(() => gate.promise);
    inTurn(() => void done.push(1));
    inTurn(async () => void done.push(2));
    await settled();
    expect(done).toEqual([]);
    gate.resolve();
    await settled();
    expect(done).toEqual([1, 2]);
    inTurn(() => void done.push(3));
    expect(done).toEqual([1, 2, 3]);
  });

  it("report what fails, and go on", async () => {
    const failures: unknown[] = [];
    const done: number[] = [];
    const inTurn = createSerialQueue((error) => void failures.push(error));
    inTurn(() => {
      throw new Error("at once");
    });
    inTurn(async () => {
      throw new Error("later");
    });
    inTurn(() => void done.push(1));
    await settled();
    expect(failures.map(String)).toEqual(["Error: at once", "Error: later"]);
    expect(done).toEqual([1]);
  });
});
