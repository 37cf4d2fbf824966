import { describe, expect, it } from "vitest";

import { exchangeWith, textOf } from "../../../test/support/exchange.ts";
import { settled } from "../../../test/support/fake-time.ts";
import { brokenThenable, createBench } from "../../../test/support/interceptors.ts";
import { notificationOf, requestOf } from "../../../test/support/messages.ts";
import { type Action, block, delay, mock, modify, pause, proceed } from "./action.ts";
import type { InterceptorOptions } from "./interceptor.ts";

function auditing(action: unknown, options: Partial<InterceptorOptions> = {}): InterceptorOptions {
  return { name: "audit", mode: "audit", phase: "request", onMessage: () => action as Action, ...options };
}

describe("an interceptor in audit mode", () => {
  it.each<[action: Action, told: readonly string[], after: string | undefined]>([
    [proceed(), ["continue"], undefined],
    [block({ reason: "no" }), ["block"], '"code":4030'],
    [mock({ result: { made: "up" } }), ["mock"], '"made":"up"'],
    [modify({ set: { "/params": { n: 1 } } }), ["modify"], '"params":{"n":1}'],
    [modify({ set: { "/id": 2 } }), ["fault"], '"code":-32603'],
    [pause({ timeoutMs: 1000 }), ["pause"], undefined],
    [delay(1000, block({ reason: "no" })), ["delay", "block"], '"code":4030'],
  ])("[SC-066] changes nothing and tells what it would have done: %j", async (action, told, after) => {
    const { handle, sent, events, time, board } = createBench([auditing(action)]);
    const exchange = exchangeWith(requestOf("ping"));
    const reply = await handle(exchange);
    expect(sent[0]).toBe(exchange);
    expect(reply.status).toBe(200);
    expect(events.map((event) => event.action)).toEqual(told);
    expect(events.every(({ mode, outcome }) => mode === "audit" && outcome === "passed")).toBe(true);
    expect(textOf(events.at(-1)?.after) ?? "").toContain(after ?? "");
    expect(events.at(-1)?.after === undefined).toBe(after === undefined);
    expect(board.list()).toEqual([]);
    expect(time.pending()).toBe(0);
  });

  it("[SC-066] delays nothing: the message is gone before a slow decision is there", async () => {
    const { promise, resolve } = Promise.withResolvers<Action>();
    const { handle, sent, events, time } = createBench([auditing(promise)]);
    void handle(exchangeWith(requestOf("ping")));
    expect(sent).toHaveLength(1);
    expect(events).toEqual([]);
    await time.advance(20);
    resolve(block({ reason: "too late" }));
    await settled();
    expect(events).toMatchObject([{ action: "block", outcome: "passed", durationMs: 20 }]);
    expect(time.pending()).toBe(0);
  });

  it.each([
    ["throws", () => Promise.reject(new Error("broken"))],
    ["never decides", () => new Promise<Action>(() => {})],
    ["decides by a thenable that throws", () => brokenThenable(new Error("broken"))],
    [
      "delays for ever",
      () => {
        const endless: { type: string; ms: number; next?: unknown } = { type: "delay", ms: 0 };
        return Object.assign(endless, { next: endless });
      },
    ],
  ])("[SC-066] changes nothing when it %s", async (_how, decide) => {
    const onMessage = decide as () => Action;
    const { handle, sent, events, time } = createBench([auditing(0, { onMessage, timeoutMs: 10 })]);
    const reply = await handle(exchangeWith(requestOf("ping")));
    await time.advance(10);
    expect(reply.status).toBe(200);
    expect(sent).toHaveLength(1);
    expect(events).toMatchObject([{ action: "fault", outcome: "passed" }]);
  });

  it("is not asked any more while a thousand of its decisions are under way", async () => {
    let asked = 0;
    const { handle, sent, events, time } = createBench([
      auditing(0, {
        timeoutMs: 10,
        onMessage: () => {
          asked++;
          return new Promise(() => {});
        },
      }),
    ]);
    const exchange = exchangeWith(notificationOf("x"));
    for (let n = 0; n < 1001; n++) void handle(exchange);
    expect(sent).toHaveLength(1001);
    expect(asked).toBe(1000);
    expect(events).toMatchObject([{ action: "fault", reason: expect.stringContaining("not asked") as string }]);
    await time.advance(10);
    void handle(exchange);
    expect(asked).toBe(1001);
  });
});
