import { expect, it } from "vitest";

import { createFakeTime } from "../../test/support/fake-time.ts";
import { createSingleCall } from "./single-call.ts";

function start() {
  const { setTimer, advance } = createFakeTime();
  return { calls: createSingleCall({ limitMs: () => 1000, setTimer, problem: "it hangs" }), advance };
}

it("passes on what became of a call that ends in time", async () => {
  const { calls } = start();
  expect(await calls.outcome()).toBeUndefined();
  await calls.run(async () => {});
  await expect(calls.run(() => Promise.reject(new Error("no")))).rejects.toThrow("no");
  expect(await calls.outcome()).toBeUndefined();
});

it.each([
  ["succeeds", true],
  ["fails", false],
])("gives a call up after its limit, and says later that it %s", async (_what, succeeds) => {
  const { calls, advance } = start();
  const late = Promise.withResolvers<void>();
  const gaveUp = { code: "store_failed", message: "it hangs" };
  await Promise.all([expect(calls.run(() => late.promise)).rejects.toMatchObject(gaveUp), advance(1000)]);
  await Promise.all([expect(calls.outcome()).rejects.toMatchObject(gaveUp), advance(1000)]);
  if (succeeds) late.resolve();
  else late.reject(new Error("no"));
  expect(await calls.outcome()).toBe(succeeds);
  expect(await calls.outcome()).toBeUndefined();
});
