import { describe, expect, it } from "vitest";

import { exchangeWith } from "../../../../test/support/exchange.ts";
import { createFakeTime } from "../../../../test/support/fake-time.ts";
import { principalNamed } from "../../../../test/support/principals.ts";
import { notificationOf, requestOf } from "../../../../test/support/messages.ts";
import { GatewayError } from "../../../errors.ts";
import { createTokenBuckets } from "../../../lib/token-bucket.ts";
import type { Exchange } from "../../../core/exchange.ts";
import { compose, noReply } from "../../../core/pipeline.ts";
import { createRateLimit, type Rates } from "./limits.ts";

const once = { perSecond: 0.5, burst: 1 };

/** Sends exchanges through a limit and says for each what became of it: passed, or whose rate it met. */
function bench(rates: Partial<Rates>) {
  const time = createFakeTime();
  const limit = createRateLimit({ methods: {}, ...rates }, (rate) => createTokenBuckets(rate, time.clock.now));
  const handle = limit && compose([limit], async () => noReply);
  const send = async (exchange: Exchange): Promise<unknown> => {
    try {
      await handle?.(exchange);
      return "passed";
    } catch (error) {
      return GatewayError.from(error).details;
    }
  };
  return { time, limit, send };
}

function call(facts: Partial<Exchange> & { readonly method?: string } = {}): Exchange {
  return exchangeWith(requestOf(facts.method ?? "tools/call", { name: "a" }), facts);
}

function inSession(id: string): Partial<Exchange> {
  return { session: { id, label: id, upstreamId: undefined } };
}

describe("the rate limit", () => {
  it("is no step at all where nothing is limited", () => {
    expect(bench({}).limit).toBeUndefined();
  });

  it("[SC-071] refuses a principal beyond its rate with 429, and says when to come back", async () => {
    const { send, time } = bench({ principal: once });
    expect(await send(call())).toBe("passed");
    expect(await send(call())).toEqual({ scope: "principal", retryAfter: 2 });
    expect(await send(call({ principal: principalNamed("bob") }))).toBe("passed");
    await time.advance(2000);
    expect(await send(call())).toBe("passed");
  });

  it("answers with the row of the table for it", async () => {
    const limit = createRateLimit({ principal: once, methods: {} }, (rate) => createTokenBuckets(rate, () => 0));
    const handle = limit && compose([limit], async () => noReply);
    await handle?.(call());
    await expect(handle?.(call())).rejects.toMatchObject({ code: "rate_limited", facts: { http: 429 } });
  });

  it("[SC-071] counts each session on its own", async () => {
    const { send } = bench({ session: once });
    expect(await send(call(inSession("one")))).toBe("passed");
    expect(await send(call(inSession("one")))).toMatchObject({ scope: "session" });
    expect(await send(call(inSession("two")))).toBe("passed");
    expect([await send(call()), await send(call())]).toEqual(["passed", "passed"]);
  });

  it("[SC-071] counts methods, a name before a pattern and the first pattern before the next", async () => {
    const { send } = bench({
      methods: {
        "tools/*": { perSecond: 1, burst: 2 },
        "*/list": { perSecond: 1, burst: 1 },
        "tools/call": { perSecond: 1, burst: 1 },
        "x-*": { perSecond: 1, burst: 1 },
      },
    });
    const method = async (name: string) => (await send(call({ method: name }))) === "passed";
    expect([await method("tools/call"), await method("tools/call")]).toEqual([true, false]);
    expect([await method("tools/list"), await method("tools/list"), await method("tools/list")]).toEqual([
      true,
      true,
      false,
    ]);
    expect([await method("prompts/list"), await method("resources/list")]).toEqual([true, false]);
    expect([await method("x-one"), await method("x-two")]).toEqual([true, false]);
    expect([await method("ping"), await method("ping")]).toEqual([true, true]);
  });

  it("takes nothing from one rate for a message that another one refuses", async () => {
    const { send, time } = bench({ principal: { perSecond: 0.001, burst: 2 }, methods: { ping: once } });
    expect(await send(call({ method: "ping" }))).toBe("passed");
    for (let tries = 0; tries < 5; tries++) {
      expect(await send(call({ method: "ping" }))).toMatchObject({ scope: "method" });
    }
    await time.advance(2000);
    expect(await send(call({ method: "ping" }))).toBe("passed");
    expect(await send(call())).toMatchObject({ scope: "principal" });
  });

  it("lets progress and cancels pass, and everything that servers send", async () => {
    const { send } = bench({ principal: once });
    expect(await send(call())).toBe("passed");
    const free = [
      exchangeWith(notificationOf("notifications/progress", { progressToken: 1, progress: 1 })),
      exchangeWith(notificationOf("notifications/cancelled", { requestId: 1 })),
      call({ method: "sampling/createMessage", direction: "server-to-client" }),
    ];
    for (const exchange of free) expect(await send(exchange)).toBe("passed");
    expect(await send(exchangeWith(notificationOf("notifications/initialized")))).toMatchObject({
      scope: "principal",
    });
  });
});
