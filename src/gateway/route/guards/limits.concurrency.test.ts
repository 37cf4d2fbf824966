import { describe, expect, it } from "vitest";

import { exchangeWith } from "../../../../test/support/exchange.ts";
import { principalNamed } from "../../../../test/support/principals.ts";
import { notificationOf, requestOf } from "../../../../test/support/messages.ts";
import { GatewayError } from "../../../errors.ts";
import type { Exchange } from "../../../core/exchange.ts";
import { compose, noReply, type Reply } from "../../../core/pipeline.ts";
import { createConcurrency, createConcurrencyGuard } from "./limits.ts";

function call(principal: string, facts: Partial<Exchange> = {}): Exchange {
  return exchangeWith(requestOf("tools/call", { name: "slow" }), {
    principal: principalNamed(principal),
    ...facts,
  });
}

describe("concurrency", () => {
  it("refuses the principal at its own bound before the one of all", () => {
    const running = createConcurrency({ total: 3, perPrincipal: 2 });
    expect([running.enter("flood"), running.enter("flood")]).toEqual([undefined, undefined]);
    expect(running.enter("flood")).toMatchObject({
      code: "rate_limited",
      details: { current: 2, limit: 2, retryAfter: 1 },
    });
    expect(running.enter("quiet")).toBeUndefined();
    expect(running.enter("other")).toMatchObject({
      code: "overloaded",
      details: { current: 3, limit: 3, retryAfter: 1 },
    });
    expect(running.enter("flood")).toMatchObject({ code: "rate_limited" });
  });

  it("has room again when somebody leaves", () => {
    const running = createConcurrency({ total: 2, perPrincipal: 1 });
    running.enter("a");
    running.leave("a");
    expect(running.enter("a")).toBeUndefined();
    expect(running.size).toBe(1);
  });
});

describe("the concurrency limit", () => {
  it("counts a request until its answer or failure", async () => {
    const running = createConcurrency({ total: 10, perPrincipal: 1 });
    const answer = Promise.withResolvers<Reply>();
    const handle = compose([createConcurrencyGuard(running)], () => answer.promise);
    const first = handle(call("a"));
    await expect(handle(call("a"))).rejects.toMatchObject({ code: "rate_limited" });
    answer.resolve(noReply);
    await first;
    expect(running.size).toBe(0);
    const failing = compose([createConcurrencyGuard(running)], async () => {
      throw new GatewayError("upstream_invalid", "no");
    });
    await expect(failing(call("a"))).rejects.toThrow("no");
    expect(running.size).toBe(0);
  });

  it("counts neither notifications, nor listening, nor what servers ask", async () => {
    const running = createConcurrency({ total: 1, perPrincipal: 1 });
    const sizes: number[] = [];
    const handle = compose([createConcurrencyGuard(running)], async () => {
      sizes.push(running.size);
      return noReply;
    });
    await handle(exchangeWith(notificationOf("notifications/cancelled", { requestId: 1 })));
    await handle(exchangeWith(requestOf("subscriptions/listen", {})));
    await handle(call("a", { direction: "server-to-client" }));
    await handle(call("a"));
    expect(sizes).toEqual([0, 0, 0, 1]);
  });
});
