import { describe, expect, it } from "vitest";

import { createFakeTime } from "../../../test/support/fake-time.ts";
import { createBreaker, createPdpCaller, type PdpCall } from "./call.ts";
import type { PdpReply } from "./client.ts";

const request: PdpCall = {
  path: "/",
  headers: {},
  body: Buffer.from("{}"),
  timeoutMs: 100,
  signal: undefined,
  retries: 0,
};

/** A caller whose decision point answers with these statuses in turn, or fails with an error. */
function callerOf(...answers: readonly (number | Error)[]) {
  const time = createFakeTime();
  const timeouts: number[] = [];
  let retries = 0;
  const caller = createPdpCaller({
    client: {
      post: async ({ timeoutMs }): Promise<PdpReply> => {
        const answer = answers[timeouts.push(timeoutMs) - 1] ?? 200;
        if (answer instanceof Error) throw answer;
        const headers = answer === 429 ? { "retry-after": "7" } : {};
        return { status: answer, headers, body: Buffer.alloc(0) };
      },
      close: () => {},
    },
    clock: time.clock,
    setTimer: time.setTimer,
    breaker: createBreaker(time.clock),
    breakerSeconds: 30,
    retryBackoffMs: 10,
    onRetry: () => void retries++,
  });
  return { caller, time, timeouts, retries: () => retries };
}

describe("createPdpCaller", () => {
  it("returns the reply of any status", async () => {
    const { caller } = callerOf(403);
    expect(await caller.call(request)).toMatchObject({ reply: { status: 403 }, tripped: undefined });
    expect(caller.checkBreaker()).toBeUndefined();
  });

  it("retries after network errors and 5xx, and opens the breaker for the final failure only", async () => {
    const { caller, time, retries } = callerOf(new Error("refused"), 503, 500);
    const called = caller.call({ ...request, retries: 2 });
    await time.advance(10);
    expect(caller.checkBreaker()).toBeUndefined();
    await time.advance(10);
    expect(await called).toMatchObject({
      reply: { status: 500 },
      tripped: { kind: "failure", remainingSeconds: 30 },
    });
    expect(retries()).toBe(2);
    expect(caller.checkBreaker()?.kind).toBe("failure");
  });

  it("opens the breaker for as long as Retry-After says", async () => {
    const { caller } = callerOf(429);
    expect((await caller.call(request)).tripped).toEqual({ kind: "rate", remainingSeconds: 7 });
  });

  it("fits attempts into the budget", async () => {
    const { caller, time, timeouts } = callerOf(new Error("refused"), new Error("refused"));
    const called = caller.call({ ...request, retries: 5, budgetMs: 15 });
    await time.advance(10);
    expect(await called).toMatchObject({ error: "refused" });
    expect(timeouts).toEqual([15, 5]);
  });

  it("rejects and keeps the breaker closed when the caller goes away, but not on a timeout", async () => {
    const { caller } = callerOf(new Error("aborted"), new Error("aborted"));
    await expect(caller.call({ ...request, signal: AbortSignal.abort("gone") })).rejects.toThrow("disconnected");
    expect(caller.checkBreaker()).toBeUndefined();
    const late = await caller.call({ ...request, signal: AbortSignal.abort("timeout") });
    expect(late.tripped?.kind).toBe("failure");
  });
});
