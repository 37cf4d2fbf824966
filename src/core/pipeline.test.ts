import { describe, expect, it } from "vitest";

import { exchangeWith } from "../../test/support/exchange.ts";
import { requestOf } from "../../test/support/messages.ts";
import { GatewayError } from "../errors.ts";
import { compose, type Guard, type Handler, identityInterceptor, type Interceptor, noReply } from "./pipeline.ts";

const exchange = exchangeWith(requestOf("tools/call", { name: "a" }));

/** Steps that write down when they are called. */
function bench() {
  const calls: string[] = [];
  const guard = (name: string, more: Partial<Guard> = {}): Guard => ({
    enter: (seen) => {
      calls.push(`${name} enters`);
      return more.enter?.(seen);
    },
    answered: (seen, reply) => {
      calls.push(`${name} answered`);
      return more.answered?.(seen, reply) ?? reply;
    },
    failed: (_seen, { code }) => {
      calls.push(`${name} failed ${code}`);
    },
  });
  const around =
    (name: string): Interceptor =>
    (next) =>
    async (seen) => {
      calls.push(`${name} before`);
      const reply = await next(seen);
      calls.push(`${name} after`);
      return reply;
    };
  const handler: Handler = async () => {
    calls.push("handled");
    return noReply;
  };
  return { calls, guard, around, handler };
}

describe("a pipeline", () => {
  it("takes a message through guards and interceptors in their order, and the answer back the other way", async () => {
    const { calls, guard, around, handler } = bench();
    const steps = [guard("a"), guard("b"), identityInterceptor, around("c"), guard("d")];
    expect(await compose(steps, handler)(exchange)).toBe(noReply);
    expect(calls).toEqual([
      "a enters",
      "b enters",
      "c before",
      "d enters",
      "handled",
      "d answered",
      "c after",
      "b answered",
      "a answered",
    ]);
  });

  it("stays the very handler it was without any step that does something", () => {
    const { handler } = bench();
    expect(compose([], handler)).toBe(handler);
    expect(compose([identityInterceptor, identityInterceptor], handler)).toBe(handler);
  });

  it("goes no further than the guard that refuses, and tells those before it", async () => {
    const { calls, guard, handler } = bench();
    const refusal = new GatewayError("rate_limited", "too much");
    const steps = [guard("a"), guard("b", { enter: () => refusal }), guard("c")];
    await expect(compose(steps, handler)(exchange)).rejects.toBe(refusal);
    expect(calls).toEqual(["a enters", "b enters", "a failed rate_limited"]);
  });

  it("goes on at once where a preparation does not wait, and through its interceptor where it does", async () => {
    for (const isPrepared of [true, false]) {
      const { calls, guard, around, handler } = bench();
      const preparation = { prepare: () => isPrepared, otherwise: around("p") };
      const failing = guard("c", {
        answered: () => {
          throw new GatewayError("internal", "broken");
        },
      });
      const pipeline = compose([guard("a"), preparation, guard("b"), failing], handler);
      await expect(pipeline(exchange)).rejects.toMatchObject({ code: "internal" });
      const handled = ["b enters", "c enters", "handled", "c answered", "b failed internal"];
      expect(calls).toEqual(["a enters", ...(isPrepared ? handled : ["p before", ...handled]), "a failed internal"]);
    }
  });

  it("answers each guard around a preparation once", async () => {
    for (const isPrepared of [true, false]) {
      const { calls, guard, around, handler } = bench();
      const steps = [guard("a"), { prepare: () => isPrepared, otherwise: around("p") }, guard("b")];
      expect(await compose(steps, handler)(exchange)).toBe(noReply);
      const [before, after] = isPrepared ? [[], []] : [["p before"], ["p after"]];
      expect(calls).toEqual(["a enters", ...before, "b enters", "handled", "b answered", ...after, "a answered"]);
    }
  });

  it("tells every guard once when there is no answer, also where the handler throws before it waits", async () => {
    const { calls, guard } = bench();
    const broken = compose([guard("a"), guard("b")], () => {
      throw new GatewayError("upstream_timeout", "late");
    });
    await expect(broken(exchange)).rejects.toMatchObject({ code: "upstream_timeout" });
    expect(calls).toEqual(["a enters", "b enters", "b failed upstream_timeout", "a failed upstream_timeout"]);
  });

  it("tells the guards further out when one fails at the answer", async () => {
    const { calls, guard, handler } = bench();
    const steps = [
      guard("a"),
      guard("b", {
        answered: () => {
          throw new Error("a bug");
        },
      }),
      guard("c"),
    ];
    await expect(compose(steps, handler)(exchange)).rejects.toMatchObject({ code: "internal" });
    expect(calls.slice(4)).toEqual(["c answered", "b answered", "a failed internal"]);
  });

  it("sends back what a guard makes of the answer", async () => {
    const { guard, handler } = bench();
    const other = { message: undefined, status: 418 };
    const steps = [guard("a"), guard("b", { answered: () => other })];
    expect(await compose(steps, handler)(exchange)).toBe(other);
  });
});
