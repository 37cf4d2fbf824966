import { describe, expect, it } from "vitest";

import { settledWithin } from "./settled-within.ts";

const late = "the server did not answer in time";

function setUp(needsOne: boolean) {
  const [one, two] = [Promise.withResolvers<void>(), Promise.withResolvers<void>()];
  let passTime = (): void => {};
  const outcome = settledWithin(
    [one.promise, two.promise],
    3000,
    (_ms, run) => {
      passTime = run;
      return () => {};
    },
    needsOne,
  );
  return { one, two, outcome, passTime: () => passTime() };
}

describe("waiting for servers", () => {
  it.each([true, false])(
    "is over when all have answered or failed, whether one is needed or not: %s",
    async (needsOne) => {
      const { one, two, outcome } = setUp(needsOne);
      one.resolve();
      two.reject(new Error("down"));
      expect(await outcome).toEqual([undefined, expect.any(String)]);
    },
  );

  it.each([true, false])("does not wait longer for the others of one that answered: %s", async (needsOne) => {
    const { one, outcome, passTime } = setUp(needsOne);
    one.resolve();
    await one.promise;
    passTime();
    expect(await outcome).toEqual([undefined, late]);
  });

  it("waits for the first where one is needed, and not where none is", async () => {
    const needed = setUp(true);
    needed.passTime();
    needed.two.resolve();
    expect(await needed.outcome).toEqual([late, undefined]);
    const enough = setUp(false);
    enough.passTime();
    expect(await enough.outcome).toEqual([late, late]);
  });

  it("is over when the last one has failed as well", async () => {
    const { one, two, outcome, passTime } = setUp(true);
    passTime();
    one.reject(new Error("down"));
    two.reject(new Error("down too"));
    expect(await outcome).not.toContain(undefined);
  });
});
