import { describe, expect, it } from "vitest";

import { exchangeWith } from "../../../test/support/exchange.ts";
import { createFakeTime, settled } from "../../../test/support/fake-time.ts";
import { requestOf, resultOf } from "../../../test/support/messages.ts";
import { allow, createPolicyBench, explanation, fakeProvider } from "../../../test/support/policy.ts";
import { Cancellation } from "../../core/cancellation.ts";
import { InspectedMessage } from "../../core/interceptors/inspected-message.ts";
import { withDeadline } from "./fail-open.ts";
import type { PolicyCall, PolicyProvider, Decision } from "./provider.ts";

const call: PolicyCall = { signal: new AbortController().signal, memory: undefined };
const never = (): Promise<never> => new Promise(() => {});
const subjectOf = (cancellation = new Cancellation()) =>
  InspectedMessage.of(exchangeWith(requestOf("tools/call", { name: "a" }), { cancellation }));

function timed(provider: PolicyProvider) {
  const time = createFakeTime();
  let timeouts = 0;
  const decorated = withDeadline(provider, {
    timeoutMs: 100,
    setTimer: time.setTimer,
    onTimeout: () => {
      timeouts++;
    },
  });
  return { time, decorated, timeouts: () => timeouts };
}

describe("withDeadline", () => {
  it("returns ready decisions without a timer", () => {
    const { decorated, time } = timed(fakeProvider({ sees: () => true }));
    expect(decorated.evaluateRequest(subjectOf(), call)).toEqual(allow());
    expect(decorated.filterList?.({ subject: subjectOf(), kind: "tool", entries: [] }, call)).toEqual({
      visible: [],
      explanation,
    });
    expect(time.pending()).toBe(0);
  });

  it("refuses late decisions, aborts the evaluation and counts it", async () => {
    let signal: AbortSignal | undefined;
    const provider = fakeProvider({
      request: (_, asked) => {
        ({ signal } = asked);
        return never();
      },
      response: never,
    });
    const { decorated, time, timeouts } = timed(provider);
    const asked = Promise.resolve(decorated.evaluateRequest(subjectOf(), call));
    const { exchange } = subjectOf();
    const answered = InspectedMessage.answering(exchange, requestOf("tools/call"), resultOf({}));
    const reviewed = Promise.resolve(decorated.evaluateResponse(answered, call));
    await time.advance(99);
    expect(timeouts()).toBe(0);
    await time.advance(1);
    for (const decision of await Promise.all([asked, reviewed])) {
      expect(decision).toMatchObject({
        effect: "deny",
        refusal: { kind: "unavailable", code: "decision_timeout" },
      });
    }
    expect(signal?.aborted).toBe(true);
    expect(timeouts()).toBe(2);
    expect(time.pending()).toBe(0);
  });

  it("aborts the evaluation when the caller goes away", async () => {
    const cancellation = new Cancellation();
    let signal: AbortSignal | undefined;
    const { decorated, time, timeouts } = timed(
      fakeProvider({
        request: (_, asked) => {
          ({ signal } = asked);
          return never();
        },
      }),
    );
    const decision = Promise.resolve(decorated.evaluateRequest(subjectOf(cancellation), call));
    cancellation.cancel("client-gone");
    expect(await decision).toMatchObject({ effect: "deny" });
    expect(signal?.reason).toBe("client-gone");
    expect([time.pending(), timeouts()]).toEqual([0, 0]);
  });

  it("passes decisions and errors on, and cancels its timer", async () => {
    const decision = Promise.withResolvers<Decision>();
    const { decorated, time } = timed(
      fakeProvider({ request: () => decision.promise, response: () => Promise.reject(new Error("gone")) }),
    );
    const asked = decorated.evaluateRequest(subjectOf(), call);
    decision.resolve(allow({ memory: 1 }));
    expect(await asked).toEqual(allow({ memory: 1 }));
    await expect(decorated.evaluateResponse(subjectOf(), call)).rejects.toThrow("gone");
    await settled();
    expect(time.pending()).toBe(0);
  });

  it("rejects late list decisions", async () => {
    const time = createFakeTime();
    const provider = withDeadline({ ...fakeProvider(), filterList: never }, { timeoutMs: 5, setTimer: time.setTimer });
    const bench = createPolicyBench(provider, async ({ message }) => ({
      message: message.kind === "request" ? resultOf({ tools: [{ name: "a" }] }) : undefined,
    }));
    const reply = bench.handle(exchangeWith(requestOf("tools/list")));
    await time.advance(5);
    expect((await reply).message?.kind).toBe("error");
  });

  it("closes the wrapped provider", async () => {
    let isClosed = false;
    const provider = withDeadline(
      {
        ...fakeProvider(),
        close: () => {
          isClosed = true;
        },
      },
      { timeoutMs: 5, setTimer: createFakeTime().setTimer },
    );
    await provider.close?.();
    expect([isClosed, provider.name, provider.filterList === undefined]).toEqual([true, "fake", true]);
  });
});
