import { describe, expect, it } from "vitest";
import { settled } from "../../test/support/fake-time.ts";
import { createRunningCalls } from "./running-calls.ts";

describe("running calls", () => {
  it("are counted for each key on its own", () => {
    const calls = createRunningCalls<string>();
    calls.begin("a");
    calls.begin("a");
    calls.begin("b");
    calls.end("a");
    expect([calls.count("a"), calls.count("b"), calls.count("c")]).toEqual([1, 1, 0]);
  });

  it("are waited for until the last one has ended", async () => {
    const calls = createRunningCalls<string>();
    const over: string[] = [];
    calls.begin("a");
    calls.begin("a");
    calls.begin("b");
    void calls.idle("a").then(() => over.push("a"));
    void calls.idle("b").then(() => over.push("b"));
    calls.end("a");
    calls.end("b");
    await settled();
    expect(over).toEqual(["b"]);
    calls.end("a");
    await settled();
    expect(over).toEqual(["b", "a"]);
  });

  it("need no waiting where there are none", async () => {
    const calls = createRunningCalls<string>();
    await expect(calls.idle("a")).resolves.toBeUndefined();
    calls.end("a");
    expect(calls.count("a")).toBe(0);
  });
});
