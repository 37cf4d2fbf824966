import { describe, expect, it } from "vitest";

import { exchangeWith } from "../../../../test/support/exchange.ts";
import { principalNamed } from "../../../../test/support/principals.ts";
import { notificationOf, requestOf } from "../../../../test/support/messages.ts";
import { GatewayError } from "../../../errors.ts";
import type { Exchange } from "../../../core/exchange.ts";
import { compose, type Interceptor, noReply, type Reply } from "../../../core/pipeline.ts";
import { createConcurrency, createConcurrencyGuard, createMessageCounters } from "./limits.ts";

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
    const counters = createMessageCounters({ total: 10, perPrincipal: 1 });
    const { requests: running } = counters;
    const answer = Promise.withResolvers<Reply>();
    const guard = createConcurrencyGuard(counters);
    const handle = compose([guard], () => answer.promise);
    const first = handle(call("a"));
    await expect(handle(call("a"))).rejects.toMatchObject({ code: "rate_limited" });
    answer.resolve(noReply);
    await first;
    expect(running.size).toBe(0);
    const failing = compose([guard], async () => {
      throw new GatewayError("upstream_invalid", "no");
    });
    await expect(failing(call("a"))).rejects.toThrow("no");
    expect(running.size).toBe(0);
  });

  it("counts neither listening, nor what servers send, and notifications by themselves", async () => {
    const counters = createMessageCounters({ total: 1, perPrincipal: 1 });
    const { requests, notifications } = counters;
    const sizes: unknown[] = [];
    const handle = compose([createConcurrencyGuard(counters)], async () => {
      sizes.push([requests.size, notifications.size]);
      return noReply;
    });
    const cancel = notificationOf("notifications/cancelled", { requestId: 1 });
    await handle(exchangeWith(cancel));
    await handle(exchangeWith(cancel, { direction: "server-to-client" }));
    await handle(exchangeWith(requestOf("subscriptions/listen", {})));
    await handle(call("a", { direction: "server-to-client" }));
    await handle(call("a"));
    expect(sizes).toEqual([
      [0, 1],
      [0, 0],
      [0, 0],
      [0, 0],
      [1, 0],
    ]);
    expect([requests.size, notifications.size]).toEqual([0, 0]);
  });

  it("counts what servers send by itself, until their answer has passed everything", async () => {
    const clients = createMessageCounters({ total: 10, perPrincipal: 1 });
    const servers = createMessageCounters({ total: 10, perPrincipal: 1 }, "server ");
    const { promise, resolve } = Promise.withResolvers<undefined>();
    const guards = [createConcurrencyGuard(clients), createConcurrencyGuard(servers, "server-to-client")];
    const slow: Interceptor = (next) => async (exchange) => {
      const reply = await next(exchange);
      await promise;
      return reply;
    };
    const handle = compose([...guards, slow], async () => noReply);
    const asked = call("a", { direction: "server-to-client" });
    const running = [handle(asked), handle(call("a"))];
    await expect(handle(asked)).rejects.toMatchObject({
      code: "rate_limited",
      message: "this caller has too many server requests in flight",
    });
    expect([clients.requests.size, servers.requests.size]).toEqual([1, 1]);
    resolve(undefined);
    await Promise.all(running);
    expect([clients.requests.size, servers.requests.size]).toEqual([0, 0]);
    await handle(asked);
  });

  it("lets a caller cancel when all its requests are running, and bounds that too", async () => {
    const guard = createConcurrencyGuard(createMessageCounters({ total: 10, perPrincipal: 1 }));
    const { promise, resolve } = Promise.withResolvers<Reply>();
    const handle = compose([guard], () => promise);
    const cancel = exchangeWith(notificationOf("notifications/cancelled", { requestId: 1 }), {
      principal: principalNamed("a"),
    });
    const running = [handle(call("a")), handle(cancel)];
    const tooMany = { code: "rate_limited", message: "this caller has too many notifications in flight" };
    await expect(handle(cancel)).rejects.toMatchObject(tooMany);
    resolve(noReply);
    await Promise.all(running);
    await handle(cancel);
  });
});
